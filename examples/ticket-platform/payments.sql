-- PostgreSQL: offers, the coupons that were bought for them, and payments with what was given to charity.
CREATE DATABASE payments;
\connect payments
CREATE TABLE offer (code text PRIMARY KEY, name text NOT NULL, discount numeric(4,1) NOT NULL);
CREATE TABLE coupon (
    id bigint PRIMARY KEY, offer_code text NOT NULL, member_id int NOT NULL, price numeric(8,2) NOT NULL,
    bought_at timestamptz NOT NULL, redeemed_at timestamptz, updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE payment (
    id bigint PRIMARY KEY, booking_id bigint NOT NULL, amount numeric(10,2) NOT NULL,
    donation numeric(6,2) NOT NULL, method text NOT NULL, card_number text,
    paid_at timestamptz NOT NULL, updated_at timestamptz NOT NULL DEFAULT now()
);
INSERT INTO offer VALUES ('MID', 'Midweek', 20.0), ('DUO', 'Two for one', 50.0), ('NEW', 'First visit', 12.5);
INSERT INTO coupon
    SELECT n, (ARRAY['MID', 'DUO', 'NEW'])[n % 3 + 1], n * 11 % 80 + 1, 4.75 + n % 5,
        timestamptz '2026-01-01 00:00+00' + n * interval '5 hours',
        CASE WHEN n % 4 > 0 THEN timestamptz '2026-01-03 00:00+00' + n * interval '5 hours' END,
        timestamptz '2026-01-03 00:00+00' + n * interval '5 hours'
    FROM generate_series(1, 90) AS n;
INSERT INTO payment
    SELECT n, n, ((n % 4 + 1) * 3.45)::numeric(10,2), CASE WHEN n % 3 = 0 THEN 0.25 * (n % 4 + 1) ELSE 0 END,
        (ARRAY['card', 'wallet'])[n % 2 + 1], CASE WHEN n % 2 = 0 THEN '411111111111' || lpad((n % 10000)::text, 4, '0') END,
        timestamptz '2026-01-01 00:00+00' + n * interval '41 minutes',
        timestamptz '2026-01-01 00:00+00' + n * interval '41 minutes'
    FROM generate_series(1, 600) AS n;
