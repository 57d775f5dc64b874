"""Status of Provisioners and node templates: conditions, resources, advice."""
