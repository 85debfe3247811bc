"""Training with Lightning: images, users' own networks, several devices. Tables have a loop of their own."""
