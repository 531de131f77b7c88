"""The Spark edge: Java, jars and sessions, and the code that runs inside Spark."""
