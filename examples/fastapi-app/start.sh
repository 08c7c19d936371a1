#!/bin/sh
# Brings the users of the table into Nearveil's tables of the same database, and starts the app on port 8080.
# Needs DATABASE_URL. Run it again at any time: once all are brought in, the file "imported" is there and it is not done
# again, because an import would bring back who has left the map meanwhile.
set -eu
cd "$(dirname "$0")"
: "${DATABASE_URL:?set DATABASE_URL, such as postgresql://app@localhost/app; its password belongs into ~/.pgpass}"
export NEARVEIL_KEYS_FILE="${NEARVEIL_KEYS_FILE:-keys.json}"
[ -e "$NEARVEIL_KEYS_FILE" ] || nearveil keys create "$NEARVEIL_KEYS_FILE"
if [ ! -e imported ]; then
    NEARVEIL_IMPORT_FROM="$DATABASE_URL" NEARVEIL_STORE="$DATABASE_URL" \
        nearveil import --table users --id id --location location --region san-francisco --noise 500m
    touch imported
fi
exec uvicorn --factory app:main --host 127.0.0.1 --port "${PORT:-8080}"
