"""Pods in classes, their relaxation levels, volumes and DaemonSet overhead."""
