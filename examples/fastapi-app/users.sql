-- What an app has before Nearveil: users with a location, sessions, and codes for signing in. Made-up people of San Francisco.
--   psql -v people=1000000 -f users.sql
\if :{?people} \else \set people 2000 \endif
CREATE EXTENSION IF NOT EXISTS postgis;
CREATE TABLE users (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    location geography(Point, 4326)
);
CREATE TABLE sessions (
    token text PRIMARY KEY DEFAULT encode(sha256(gen_random_uuid()::text::bytea), 'hex'),
    user_id bigint NOT NULL REFERENCES users ON DELETE CASCADE
);
-- The app sends them to people's mailboxes.
CREATE TABLE sign_in_codes (
    code text PRIMARY KEY DEFAULT encode(sha256(gen_random_uuid()::text::bytea), 'hex'),
    user_id bigint NOT NULL REFERENCES users ON DELETE CASCADE,
    expires timestamptz NOT NULL DEFAULT now() + interval '10 minutes'
);
INSERT INTO users (name, location)
SELECT 'Person ' || number, ST_MakePoint(-122.44 + 0.06 * sin(number) * random(), 37.76 + 0.05 * cos(number) * random())
FROM generate_series(1, :people) AS number;
INSERT INTO sessions (user_id) SELECT id FROM users ORDER BY id LIMIT 3;
