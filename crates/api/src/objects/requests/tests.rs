//! Rows of what pods need.
