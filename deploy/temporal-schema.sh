#!/bin/sh
# Makes or upgrades Temporal's two databases; safe to run again.
set -eu
for database in temporal temporal_visibility; do
  case "$database" in temporal) folder=temporal ;; *) folder=visibility ;; esac
  tool="temporal-sql-tool --plugin postgres12 --ep $POSTGRES_SEEDS -p $DB_PORT -u $POSTGRES_USER --db $database"
  $tool create
  # Fails when the schema is there already; the update below then does the rest.
  $tool setup-schema -v 0.0 || true
  $tool update-schema -d "/etc/temporal/schema/postgresql/v12/$folder/versioned"
done
