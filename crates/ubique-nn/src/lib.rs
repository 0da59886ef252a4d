//! Modules, losses, optimisers and data loading.
