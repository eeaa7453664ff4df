//! The core that schedule rules share: stages, affine accesses, loop nests under construction,
//! tiles of axes, contractions and their epilogues, and the way to the checked primitives of
//! `reflex_tir::schedule`.

pub mod access;
pub mod affine;
pub mod collapse;
pub mod contraction;
pub mod cost;
pub mod decision;
pub mod epilogue;
pub mod nest;
pub mod panels;
pub mod primitives;
pub mod stage;
pub mod tile;
