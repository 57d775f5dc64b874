"""`nodeless explain`: why a pod waits, a node stays, a Provisioner launches nothing."""
