"""From a LaunchRequest to a running instance: launch templates, CreateFleet, visibility."""
