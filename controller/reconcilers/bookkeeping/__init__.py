"""Decisions and learned memory kept in ConfigMaps; fleet figures; price refresh."""
