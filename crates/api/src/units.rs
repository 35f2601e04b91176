//! Quantities, durations and prices: conversion between their text and integers.

pub mod duration;
pub mod price;
pub mod quantity;
