"""Scale-ins in virtual time."""
