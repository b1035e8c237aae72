//! Reading JSON as the field's other programs do: keys without regard to case.
