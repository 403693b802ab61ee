// says: normplace: a placement's formula uses one norm slot twice; give each norm its own: norm<in>, norm<out>.
#include <normplace/placement/catalogue.hpp>

using namespace normplace;

struct Mine {
    static constexpr auto name = "mine";
    static constexpr auto formula = x + norm(f(norm(x)));
    static constexpr bool final_norm = true;
};

static_assert(explain_placement<Mine>());
