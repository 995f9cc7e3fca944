"""PostgreSQL: migrations, and one repository module per aggregate. The only place with SQL."""
