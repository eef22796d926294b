"""The operator's page in Airflow's UI.

Each page has a module: its routes, what they read from the ledger and the lake, and templates of
the same name. Pages change nothing; an action starts a DAG run through Airflow as the person who
asked for it.
"""
