//! Servers of DTranx, for the target `dtranx`: started here, or named by the caller (`running`). A
//! workbench that is built without the feature `dtranx` has none (`absent`).

#[cfg(not(feature = "dtranx"))]
mod absent;
#[cfg(feature = "dtranx")]
mod running;

#[cfg(not(feature = "dtranx"))]
pub use self::absent::Store;
#[cfg(feature = "dtranx")]
pub use self::running::Store;
