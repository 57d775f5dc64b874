"""What is there already, looked up before anything is declared."""
