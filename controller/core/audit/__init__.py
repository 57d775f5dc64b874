"""Judge a plan against kube-scheduler's rules, independently of the packer."""
