-- PostgreSQL's image makes the database of states by itself; Airflow has one of its own.
CREATE DATABASE airflow;
