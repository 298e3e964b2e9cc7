"""Raw objects of the cluster made into small frozen views, and pod failures into a diagnosis. Pure."""
