"""Questions about a cloud that are not AWS's own: catalogs of all Provisioners, drift."""
