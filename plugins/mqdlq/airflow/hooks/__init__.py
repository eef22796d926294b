"""What Airflow connections open: queue managers and the ledger."""
