"""Airflow hooks: queue managers and the ledger."""
