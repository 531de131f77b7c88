"""The Spark edge: Java, jars and sessions, and what runs inside Spark."""
