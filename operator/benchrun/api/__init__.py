"""What users write and read: spec and status models, conditions, names, and the CRD made from them."""
