"""The operator's page in Airflow's UI.

Each page has a room: thin routes, views that read the ledger and the lake, and templates. Pages
change nothing; an action starts a DAG run through Airflow as the person who asked for it.
"""
