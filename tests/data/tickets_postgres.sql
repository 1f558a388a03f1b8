-- The ticket office of dms_sample for PostgreSQL: what its functions do, written anew, and an audit of every row.

CREATE TABLE audit (
  seq bigserial PRIMARY KEY, tx xid8 NOT NULL DEFAULT pg_current_xact_id(),
  name text NOT NULL, op text NOT NULL, was jsonb, now jsonb
);

CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO audit(name, op, was, now) VALUES (TG_TABLE_NAME, TG_OP, to_jsonb(OLD), to_jsonb(NEW));
  RETURN NULL;
END $$;

-- The next free tickets from a number on are sold to one person.
CREATE PROCEDURE sellRandomTickets(near_person float8, near_ticket float8, how_many int) LANGUAGE plpgsql AS $$
DECLARE
  buyer float8 := (SELECT min(id) FROM person WHERE id >= near_person);
  sold record;
BEGIN
  FOR sold IN SELECT id, ticket_price FROM sporting_event_ticket
    WHERE id >= near_ticket AND ticketholder_id IS NULL ORDER BY id LIMIT how_many FOR UPDATE
  LOOP
    UPDATE sporting_event_ticket SET ticketholder_id = buyer WHERE id = sold.id;
    INSERT INTO ticket_purchase_hist VALUES (sold.id, buyer, clock_timestamp(), NULL, sold.ticket_price);
  END LOOP;
END $$;

-- The next sold tickets from a number on go to another person, at another price.
CREATE PROCEDURE transferTicket(near_ticket float8, near_person float8, how_many int) LANGUAGE plpgsql AS $$
DECLARE
  buyer float8 := (SELECT min(id) FROM person WHERE id >= near_person);
  sold record;
BEGIN
  FOR sold IN SELECT id, ticketholder_id, ticket_price FROM sporting_event_ticket
    WHERE id >= near_ticket AND ticketholder_id <> buyer ORDER BY id LIMIT how_many FOR UPDATE
  LOOP
    UPDATE sporting_event_ticket SET ticketholder_id = buyer WHERE id = sold.id;
    INSERT INTO ticket_purchase_hist
      VALUES (sold.id, buyer, clock_timestamp(), sold.ticketholder_id, round(sold.ticket_price * 1.25, 2));
  END LOOP;
END $$;

-- Tickets are sold and transferred at once: several versions of a row in one transaction.
CREATE PROCEDURE generateTicketActivity(near_person float8, near_ticket float8, how_many int) LANGUAGE plpgsql AS $$
BEGIN
  CALL sellRandomTickets(near_person, near_ticket, how_many);
  CALL transferTicket(near_ticket, near_person + 1, how_many);
  CALL transferTicket(near_ticket, near_person + 2, 1);
END $$;
