-- MariaDB: cities, theatres, what is shown, when, and who booked it. All rows are made from their numbers.
CREATE DATABASE bookings;
USE bookings;
CREATE TABLE city (id int PRIMARY KEY, name varchar(40) NOT NULL, region varchar(20) NOT NULL);
CREATE TABLE venue (id int PRIMARY KEY, name varchar(60) NOT NULL, city_id int NOT NULL);
CREATE TABLE title (
    id int PRIMARY KEY, name varchar(60) NOT NULL,
    kind varchar(10) NOT NULL, genre varchar(20) NOT NULL, language varchar(20)
);
CREATE TABLE screening (
    id int PRIMARY KEY, title_id int NOT NULL, theatre_id int NOT NULL, starts_at datetime NOT NULL
);
CREATE TABLE booking (
    id bigint PRIMARY KEY, screening_id int NOT NULL, member_id int NOT NULL, seats int NOT NULL,
    status varchar(10) NOT NULL, booked_at datetime(6) NOT NULL,
    updated_at timestamp(6) NOT NULL DEFAULT now(6) ON UPDATE now(6)
);
INSERT INTO city VALUES
    (1, 'Mumbai', 'west'), (2, 'Pune', 'west'), (3, 'Delhi', 'north'), (4, 'Chennai', 'south'), (5, 'Kochi', 'south');
INSERT INTO venue SELECT seq, concat('Theatre ', seq), seq % 5 + 1 FROM seq_1_to_8;
INSERT INTO title VALUES
    (1, 'The Last Ferry', 'movie', 'drama', 'Hindi'), (2, 'Monsoon Heist', 'movie', 'action', 'Hindi'),
    (3, 'Two Kitchens', 'movie', 'comedy', 'Tamil'), (4, 'Night Train', 'movie', 'thriller', 'English'),
    (5, 'Paper Boats', 'movie', 'drama', 'Malayalam'), (6, 'Sitar and Strings', 'concert', 'classical', NULL),
    (7, 'Rooftop Beats', 'concert', 'pop', NULL), (8, 'The Quiet Guest', 'play', 'drama', 'English'),
    (9, 'City Derby', 'sport', 'football', NULL);
INSERT INTO screening
    SELECT seq, seq % 9 + 1, seq % 8 + 1, timestamp '2026-01-01 12:00:00' + interval seq * 3 hour
    FROM seq_1_to_120;
INSERT INTO booking
    SELECT seq, seq * 7 % 120 + 1, seq * 13 % 80 + 1, seq % 4 + 1, if(seq % 17 = 0, 'cancelled', 'booked'),
        timestamp '2026-01-01 00:00:00' + interval seq * 41 minute,
        timestamp '2026-01-01 00:00:00' + interval seq * 41 minute
    FROM seq_1_to_600;
