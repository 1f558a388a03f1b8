-- The ticket office of dms_sample for MariaDB: what its functions do, written anew, and an audit of every row.

CREATE TABLE audit (
  seq bigint PRIMARY KEY AUTO_INCREMENT, at bigint NOT NULL,
  name varchar(40) NOT NULL, op varchar(10) NOT NULL, was json, now json
);

DELIMITER //

-- The next free tickets from a number on are sold to one person.
CREATE PROCEDURE sellRandomTickets(near_person double, near_ticket double, how_many int)
BEGIN
  DECLARE buyer double DEFAULT (SELECT min(id) FROM person WHERE id >= near_person);
  FOR sold IN (
    SELECT id, ticket_price FROM sporting_event_ticket
    WHERE id >= near_ticket AND ticketholder_id IS NULL ORDER BY id LIMIT how_many FOR UPDATE
  ) DO
    UPDATE sporting_event_ticket SET ticketholder_id = buyer WHERE id = sold.id;
    INSERT INTO ticket_purchase_hist VALUES (sold.id, buyer, sysdate(6), NULL, sold.ticket_price);
  END FOR;
END //

-- The next sold tickets from a number on go to another person, at another price.
CREATE PROCEDURE transferTicket(near_ticket double, near_person double, how_many int)
BEGIN
  DECLARE buyer double DEFAULT (SELECT min(id) FROM person WHERE id >= near_person);
  FOR sold IN (
    SELECT id, ticketholder_id, ticket_price FROM sporting_event_ticket
    WHERE id >= near_ticket AND ticketholder_id <> buyer ORDER BY id LIMIT how_many FOR UPDATE
  ) DO
    UPDATE sporting_event_ticket SET ticketholder_id = buyer WHERE id = sold.id;
    INSERT INTO ticket_purchase_hist
      VALUES (sold.id, buyer, sysdate(6), sold.ticketholder_id, round(sold.ticket_price * 1.25, 2));
  END FOR;
END //

-- Tickets are sold and transferred at once: several versions of a row in one transaction.
CREATE PROCEDURE generateTicketActivity(near_person double, near_ticket double, how_many int)
BEGIN
  CALL sellRandomTickets(near_person, near_ticket, how_many);
  CALL transferTicket(near_ticket, near_person + 1, how_many);
  CALL transferTicket(near_ticket, near_person + 2, 1);
END //

DELIMITER ;
