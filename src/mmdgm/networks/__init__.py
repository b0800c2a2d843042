"""From tensors to network outputs: layers, multilayer perceptrons, conv nets, architectures, likelihoods."""
