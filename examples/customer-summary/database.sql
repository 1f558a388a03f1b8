-- The database that the example follows. MariaDB must log whole rows (binlog_format=ROW, binlog_row_image=FULL).
CREATE DATABASE salesdb;
USE salesdb;
CREATE TABLE CUSTOMER (CUST_ID DOUBLE PRIMARY KEY, NAME VARCHAR(50), REGION VARCHAR(20));
CREATE TABLE CUSTOMER_SITE (SITE_ID DOUBLE PRIMARY KEY, CUST_ID DOUBLE, ADDRESS VARCHAR(50), KEY (CUST_ID));
CREATE TABLE SALES_ORDER_ALL (ORDER_ID DOUBLE, SITE_ID DOUBLE, ORDER_DATE DATE, KEY (SITE_ID));
INSERT INTO CUSTOMER SELECT seq, concat('customer_', seq), elt(seq % 3 + 1, 'north', 'south', 'west') FROM seq_1_to_20;
INSERT INTO CUSTOMER_SITE SELECT seq, (seq - 1) % 20 + 1, concat('street ', seq) FROM seq_1_to_40;
INSERT INTO SALES_ORDER_ALL
    SELECT seq, (seq * (seq % 7 + 1)) % 40 + 1, date '2026-01-01' + interval seq day FROM seq_1_to_200;
