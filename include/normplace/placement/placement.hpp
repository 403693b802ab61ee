// SPDX-License-Identifier: BSD-3-Clause
//
// What makes a type a placement, and the sentences that say what is missing.
//
//     struct HalfStep {
//         static constexpr auto name = "half-step";
//         static constexpr auto formula = np::x + 0.5 * np::f(np::norm(np::x));
//         static constexpr bool final_norm = true;
//         static double gain(np::Role, const np::Depth&);   // optional, 1 when absent
//     };
#pragma once

#include <cmath>
#include <concepts>
#include <string_view>

#include <normplace/placement/formula.hpp>

namespace normplace {

namespace placement_requirement {

template <class P>
concept has_name = requires {
    { P::name } -> std::convertible_to<std::string_view>;
};
template <class P>
concept has_formula = requires {
    requires syntax::Expression<decltype(P::formula)>;
};
template <class P>
concept has_one_sublayer = has_formula<P> && requires {
    requires syntax::count(P::formula)
    .sublayers == 1;
};
template <class P>
concept has_distinct_slots = has_formula<P> && requires {
    requires syntax::all_distinct(syntax::slots(P::formula));
};
template <class P>
concept has_final_norm = std::same_as < std::remove_cv_t<decltype(P::final_norm)>,
bool > &&requires {
    std::bool_constant<P::final_norm>{};  // so it is static and constexpr
};
// A gain is optional, but one that cannot be called must not be passed over in silence.
template <class P>
concept mentions_gain = requires {
    &P::gain;
}
|| requires { P::gain; };
template <class P>
concept has_usable_gain = !mentions_gain<P> || requires(Role role, const Depth& depth) {
    { P::gain(role, depth) } -> std::convertible_to<double>;
};

}  // namespace placement_requirement

/// A layer-norm placement: a `name`, a `formula` with exactly one `f` and one slot per `norm`, whether the stack ends
/// in a `final_norm`, and optionally `gain(role, depth)`, the factor on the initial standard deviation of a weight
/// matrix.
template <class P>
concept Placement = placement_requirement::has_name<P> && placement_requirement::has_formula<P> &&
    placement_requirement::has_one_sublayer<P> && placement_requirement::has_distinct_slots<P> &&
    placement_requirement::has_final_norm<P> && placement_requirement::has_usable_gain<P>;

/// Names the requirement that `P` misses, one sentence each. True when `P` is a placement.
template <class P>
constexpr bool explain_placement() {
    namespace requirement = placement_requirement;
    static_assert(requirement::has_name<P>,
                  "normplace: a placement needs a name: static constexpr auto name = \"my-placement\";");
    static_assert(
        requirement::has_formula<P>,
        "normplace: a placement needs a formula of x, f and norm: static constexpr auto formula = x + f(norm(x));");
    static_assert(!requirement::has_formula<P> || requirement::has_one_sublayer<P>,
                  "normplace: a placement's formula must contain f exactly once.");
    static_assert(
        !requirement::has_formula<P> || requirement::has_distinct_slots<P>,
        "normplace: a placement's formula uses one norm slot twice; give each norm its own: norm<in>, norm<out>.");
    static_assert(
        requirement::has_final_norm<P>,
        "normplace: a placement must say whether the stack ends in a norm: static constexpr bool final_norm = true;");
    static_assert(requirement::has_usable_gain<P>,
                  "normplace: a placement's gain must be callable as static double gain(Role, const Depth&);");
    return Placement<P>;
}

/// The factor on the initial standard deviation of the matrix in `role`: P::gain, or 1 where P has none.
/// @throws std::invalid_argument when the gain is negative or not finite
template <class P>
double initial_gain(Role role, const Depth& depth) {
    if constexpr (placement_requirement::mentions_gain<P>) {
        const double gain = P::gain(role, depth);
        if (!(gain >= 0.0 && gain - gain == 0.0))
            throw std::invalid_argument(std::string(P::name) + ": the gain is " + std::to_string(gain) + " at layer " +
                                        std::to_string(depth.layer) + " of " + std::to_string(depth.layers) +
                                        ", expected a finite number of at least 0");
        return gain;
    } else {
        return 1.0;
    }
}

/// The number of norms that one residual block of this placement owns.
template <class P>
inline constexpr std::size_t norm_count = syntax::slots(P::formula).size();

}  // namespace normplace
