// says: normplace: a slot's or a scalar's name has at most 23 characters.
#include <normplace/placement/catalogue.hpp>

constexpr auto formula = normplace::norm<"a-name-of-twenty-four-ch">(normplace::x);
