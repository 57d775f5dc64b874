"""What is there already: looked up once, before anything is declared."""
