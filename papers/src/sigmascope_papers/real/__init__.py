"""Image networks that others have trained, out of ordinary packages, and real images for them."""
