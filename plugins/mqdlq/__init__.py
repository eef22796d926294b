"""A dead-letter queue handler for IBM MQ that runs as an Airflow workflow."""
