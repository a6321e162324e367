//! What starts, case by case.
