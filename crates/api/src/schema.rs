//! Rules of the schemas.
