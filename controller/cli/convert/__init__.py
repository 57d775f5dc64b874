"""`nodeless convert`: Provisioners and AWSNodeTemplates to v1 and back."""
