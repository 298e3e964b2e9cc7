"""The CustomResourceDefinitions, made from the models of `benchrun.api`."""
