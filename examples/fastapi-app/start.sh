#!/bin/sh
# Brings the users of the table into Nearveil's tables of the same database, and starts the app on port 8080.
# Needs DATABASE_URL. Run it again at any time: who was brought in before is left alone.
set -eu
cd "$(dirname "$0")"
: "${DATABASE_URL:?set DATABASE_URL, such as postgresql://app@localhost/app; its password belongs into ~/.pgpass}"
export NEARVEIL_KEYS_FILE="${NEARVEIL_KEYS_FILE:-keys.json}"
[ -e "$NEARVEIL_KEYS_FILE" ] || nearveil keys create "$NEARVEIL_KEYS_FILE"
NEARVEIL_IMPORT_FROM="$DATABASE_URL" NEARVEIL_STORE="$DATABASE_URL" \
    nearveil import --table users --id id --location location --region san-francisco --hide-within 500m
exec uvicorn --factory app:main --host 127.0.0.1 --port "${PORT:-8080}"
