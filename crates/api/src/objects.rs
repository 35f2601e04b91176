//! Slim objects.
