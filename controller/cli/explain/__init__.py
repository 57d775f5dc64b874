"""Why a pod is pending, a node stays or goes, or a Provisioner launches nothing."""
