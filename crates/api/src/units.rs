//! Quantities, durations and prices: conversion between their text and integers.

pub mod duration;
pub(crate) mod node_count;
pub mod price;
pub mod quantity;
