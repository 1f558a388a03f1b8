-- What somebody may ask who has the role `analyst` of tests/harness/granted.py and wants to see more. One query a
-- line. {word}, {number} and {day} stand for values of the lake that the role may not see.

-- columns that are not granted
select email from shop.customer
select salary from shop.customer
select "EMAIL" from SHOP.CUSTOMER
select c.email from shop.customer c
select shop.customer.email from shop.customer
select lake.shop.customer.email from lake.shop.customer
select * exclude (id) from shop.customer
select * replace (email as note) from shop.customer
select columns('e.*') from shop.customer
select columns(c -> c like '%mail%') from shop.customer
select columns(*)::varchar from shop.customer
select c from shop.customer c
select row(c.*) from shop.customer c
select to_json(c) from shop.customer c
select struct_pack(a := c) from shop.customer c
select unnest(c, recursive := true) from shop.customer c
select list(c) from shop.customer c
select customer from shop.customer
select c.* from shop.customer as c(a, b, c, d, e, f, g, h)
select j from shop.customer as t(a, b, c, d, e, f, g, h, i, j)
select email from (select * from shop.customer)
select id from shop.customer order by email
select id from shop.customer order by 9
select count(*) from shop.customer group by email
select id from shop.customer where email is not null
select id from shop.customer where "email" = '{word}-1111@mail.example'
select a.id from shop.customer a join shop.customer b using (email)
select * from shop.customer natural join shop.customer
select max(salary) over (order by id) from shop.customer
select id from shop.customer qualify row_number() over (order by salary) = 1

-- masked columns, and questions whose answer would tell their values
select name, phone, card, born, home from shop.customer
select home.street from shop.customer
select home['street'] from shop.customer
select unnest(home) from shop.customer
select struct_extract(home, 'city') from shop.customer
select count(*) from shop.customer where name = '{word}-1111'
select id from shop.customer where name >= '{word}-1111' and name < '{word}-1112'
select id from shop.customer where name like '{word}%'
select id from shop.customer where phone = '+49 {word} 1111'
select id from shop.customer where phone = '+49 {word} 1111' or id = 1112
select id from shop.customer where phone = '+49 {word} 1111' limit 1
select id from shop.customer where card = {number}1111
select id from shop.customer where card > {number}
select id from shop.customer where born = '{day}'
select id from shop.customer where born is null
select id from shop.customer where home.city = '{word}-1111'
select length(phone), length(card), length(name) from shop.customer
select md5(name), hash(phone), sha256(card) from shop.customer
select substr(phone, 1, 8), reverse(card), left(name, 3) from shop.customer
select regexp_extract(phone, '[A-Z]+'), string_split(phone, ' ') from shop.customer
select sum(try_cast(card as hugeint)), max(card), min(name) from shop.customer
select count(distinct name), approx_count_distinct(card), mode(phone) from shop.customer
select first_value(name) over (order by phone), lag(card) over (order by id) from shop.customer
select string_agg(name || phone || card, '') from shop.customer
select histogram(phone), list_sort(list(distinct card)) from shop.customer
select name from shop.customer order by name desc limit 1
select exists (select 1 from shop.customer where name = '{word}-1111')
select (select count(*) from shop.customer b where b.card < a.card) from shop.customer a
select case when name = '{word}-1111' then 1 else 0 end from shop.customer
select id, name = '{word}-1111' as is_it from shop.customer
select jaccard(name, '{word}-1111'), levenshtein(phone, '{word}') from shop.customer
summarize shop.customer
select * from (summarize shop.customer)
describe shop.customer

-- rows that are not granted
select count(*) from shop.customer
select id from shop.customer where id >= 2000
select id from shop.customer where region <> 'EU' or region is null
select distinct region from shop.customer
select * from shop.customer where note = '{word}'
select max(id), min(region), count(note) from shop.customer
select id from shop.customer limit 10 offset 2
select * from shop.customer using sample 100%
select count(*) from shop.customer tablesample reservoir(1000)
select * from shop.customer where true or region = 'US'
select * from shop.customer where 1 = 1 -- and region = 'EU'
select * from shop.customer /* where region = 'EU' */
select region from shop.customer union all select region from shop.customer_history
select id from shop.customer except select id from shop.customer where region = 'EU'
select h.id from shop.customer_history h left join shop.customer c using (id) where c.id is null
select * from shop.customer_history
select _surrogate_key from shop.customer_history
select * from shop.dim_customer
select email from shop.dim_customer
select count(*) from shop.dim_customer where name = '{word}-1111'

-- tables that are not granted
select * from shop.secret
select * from "shop"."secret"
select * from SHOP.Secret
select * from lake.shop.secret
select * from shop.secret_history
select * from shop.staff
select count(*) from shop.staff
describe shop.secret
describe select * from shop.secret
summarize shop.staff
select * from (describe shop.staff), shop.staff
select * from hr.person
select * from shop.customer_changes
select _raw from shop.customer_quarantine
select * from ops.runs
select * from ops.batches
with customer as (select * from shop.secret) select * from customer
with x as (select * from shop.customer), y as (table shop.secret) from y
with "shop.secret" as (select 1) select * from shop.secret
with secret as (select 1 as id) select * from secret, shop.secret
with recursive r(n) as (select 1 union all select n + 1 from r, shop.secret where n < 3) from r
select (select word from shop.secret limit 1)
select id from shop.customer where id in (select id from shop.secret)
select * from shop.customer, lateral (select * from shop.secret) s
select * from shop.customer full join shop.secret using (id)
select * from shop.customer where exists (from shop.secret)
from shop.customer select *, (from shop.secret select word)
values ((select word from shop.secret))
select * from shop.ſecret
select * from shop.secreт
select * from "shop.secret"
select * from shop."secret " -- with a blank
select * from "shop"."secret"/**/
select/**/*/**/from/**/shop/**/./**/secret

-- what DuckDB has registered, and what it knows of itself
select * from "__shop.customer"
select * from main."__shop.customer"
select * from temp.main."__shop.customer"
select * from temp."__shop.customer"
select * from memory.main."__shop.customer"
select * from "__shop.secret"
select * from system.main.duckdb_tables
select * from duckdb_tables()
select * from duckdb_views()
select * from duckdb_columns()
select * from duckdb_settings()
select * from duckdb_secrets()
select * from duckdb_extensions()
select * from duckdb_functions()
select * from duckdb_logs()
select * from duckdb_temporary_files()
select * from information_schema.tables
select * from information_schema.columns
select * from pg_catalog.pg_class
select * from pg_tables
select * from sqlite_master
show tables
show all tables
select * from (show all tables)
select current_setting('temp_directory'), current_setting('home_directory')
select getvariable('email'), getenv('HOME')
select * from pragma_table_info('shop.customer')
select * from pragma_storage_info('__shop.customer')
select * from pragma_database_size()
select rowid, * from shop.customer
select filename from shop.customer
select file_row_number from shop.customer
select * from shop.customer at (version => 1)

-- queries in texts, and functions that read files
select * from query('from shop.secret')
select * from query('from "__shop.customer"')
from query_table('shop.secret')
from query_table(['__shop.customer'])
select * from read_parquet('{folder}/**/*.parquet')
select * from read_csv('{folder}/catalog.db')
select * from read_text('{folder}/*')
select * from read_blob('{folder}/catalog.db')
select * from read_json('{folder}/warehouse/shop/customer/metadata/*.json')
select * from parquet_scan('{folder}/**/*.parquet')
select * from parquet_metadata('{folder}/**/*.parquet')
select * from parquet_kv_metadata('{folder}/**/*.parquet')
select * from '{folder}/warehouse/shop/customer/data/*.parquet'
select * from "{folder}/warehouse/shop/customer/data/*.parquet"
select * from glob('{folder}/**')
select * from sniff_csv('{folder}/catalog.db')
select * from iceberg_scan('{folder}/warehouse/shop/customer')
select * from sqlite_scan('{folder}/catalog.db', 'iceberg_tables')
select * from arrow_scan(1, 2, 3)
select * from pandas_scan(1)
select * from python_map_function(1)
select * from customers
select * from rows
select * from secret
select * from json_execute_serialized_sql(json_serialize_sql('select * from shop.secret'))
select * from histogram('shop.secret', word)
select * from histogram_values('shop.secret', word)
select * from summary('shop.secret')
select * from summary((table shop.secret))
select * from unnest((select list(word) from shop.secret))
select * from range((select max(id) from shop.secret))
select * from range(0, (select count(*) from shop.customer where name = '{word}-1111'))
select * from which_secret('s3://x', 's3')
select * from seq_scan('customer')
select json_serialize_sql('select * from shop.secret')
select * from shop.customer semi join shop.secret using (id)
select * from shop.customer positional join shop.secret
select * from shop.customer asof join shop.secret on customer.id >= secret.id
from shop.customer c, (table shop.secret) s select c.id, s.word
select id from shop.customer where phone = $1

-- all that is no query
copy shop.customer to '{folder}/out.csv'
copy (select * from shop.customer) to '/dev/stdout'
export database '{folder}/out'
attach '{folder}/catalog.db' as other
attach '{folder}/catalog.db' (type sqlite)
detach lake
use memory
set enable_external_access = true
set lock_configuration = false
reset lock_configuration
pragma enable_profiling
pragma show_tables
install httpfs
load sqlite
create table t as select * from shop.customer
create view v as select * from shop.secret
create macro m() as table select * from shop.secret
create temp macro e(x) as error(x)
create or replace view shop.customer as select 1
prepare p as select * from shop.secret
execute p
explain select * from shop.customer
explain analyze select * from shop.customer
call duckdb_tables()
insert into shop.customer select * from shop.customer
update shop.customer set name = 'x'
delete from shop.customer
drop view shop.customer
select 1; select * from shop.secret
select * from shop.customer; copy shop.customer to '{folder}/out.csv'
begin; select * from shop.secret; commit
checkpoint
vacuum
pivot shop.customer on name using count(*)
unpivot shop.customer on name, phone into name n value v

-- errors that could quote a value
select name::int from shop.customer
select phone::int, card::date from shop.customer
select cast(note as integer) from shop.customer
select error(name || phone) from shop.customer
select error(c::varchar) from shop.customer c
select nextval(phone) from shop.customer
select current_setting(name) from shop.customer
select strptime(phone, '%Y') from shop.customer
select json_extract(phone, '$.x'), phone::json from shop.customer
select 1 / 0 from shop.customer where name = '{word}-1111'
select sqrt(-1) from shop.customer where card = {number}1111
select case when name = '{word}-1111' then error('yes') else 'no' end from shop.customer
select (select phone from shop.customer) from shop.customer
select array_value(name)::int[] from shop.customer
select repeat(name, 1000000000000) from shop.customer
select id from shop.customer where regexp_matches(note, phone)
select date_trunc(name, now()) from shop.customer
select cast(home as struct(street int)) from shop.customer
select enum_code(name::enum('a')) from shop.customer
select unknown_function(name) from shop.customer
select emial from shop.customer
select from where
