// SPDX-License-Identifier: BSD-3-Clause
//
// What makes a type a placement, and the sentences that say what is missing.
//
//     struct HalfStep {
//         static constexpr auto name = "half-step";
//         static constexpr auto formula = np::x + 0.5 * np::f(np::norm(np::x));
//         static constexpr bool final_norm = true;                        // or `output`, a formula of the streams
//         static double gain(np::Role, const np::Depth&);                 // optional, 1 when absent
//         static np::SublayerNorms inside(const np::Depth&);              // optional, none when absent
//         static constexpr auto norm_kind = np::NormKind::unit_norm;      // optional, any kind when absent
//         static constexpr bool unit_matrices = true;                     // optional, false when absent
//     };
#pragma once

#include <cmath>
#include <concepts>
#include <optional>
#include <string_view>
#include <type_traits>

#include <normplace/placement/formula.hpp>
#include <normplace/placement/norm_kind.hpp>
#include <normplace/placement/sublayer_norms.hpp>

namespace normplace {

namespace placement_requirement {

template <class P>
concept has_name = requires {
    { P::name } -> std::convertible_to<std::string_view>;
};
template <class P>
concept has_formula = std::same_as<std::remove_cv_t<decltype(P::formula)>, Formula> && requires {
    std::bool_constant<(P::formula.size > 0)>{};  // so it is static and constexpr
};
template <class P>
concept has_one_sublayer = has_formula<P> && syntax::has_sublayers(P::formula, 1);
template <class P>
concept has_distinct_slots = has_formula<P> && syntax::has_distinct_names(P::formula);
template <class P>
concept has_its_streams = has_formula<P> && syntax::reads_streams_below(P::formula, P::formula.result_count);
template <class P>
concept has_output = has_formula<P> && std::same_as<std::remove_cv_t<decltype(P::output)>, Formula> &&
                         P::output.result_count == 1 &&
                     syntax::has_sublayers(P::output, 0) &&
                     !syntax::has_shared_gate(P::output) && syntax::count_norms(P::output) <= 1 &&
                     syntax::reads_streams_below(P::output, P::formula.result_count);
template <class P>
concept has_final_norm = std::same_as < std::remove_cv_t<decltype(P::final_norm)>,
bool > &&requires {
    std::bool_constant<P::final_norm>{};  // so it is static and constexpr
};
template <class P>
concept mentions_output = requires {
    P::output;
};
template <class P>
concept mentions_final_norm = requires {
    P::final_norm;
};
// What becomes of the other streams is never guessed.
template <class P>
concept has_one_end = mentions_output<P>
!= mentions_final_norm<P> && (mentions_output<P> || !has_formula<P> || P::formula.result_count == 1);
template <class P>
concept has_an_end = has_one_end<P> &&((mentions_output<P> && has_output<P>) || has_final_norm<P>);
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
template <class P>
concept mentions_inside = requires {
    &P::inside;
}
|| requires { P::inside; };
template <class P>
concept has_usable_inside = !mentions_inside<P> || requires(const Depth& depth) {
    { P::inside(depth) } -> std::same_as<SublayerNorms>;
};
template <class P>
concept mentions_norm_kind = requires {
    P::norm_kind;
};
template <class P>
concept has_usable_norm_kind =
    !mentions_norm_kind<P> || (std::same_as<std::remove_cv_t<decltype(P::norm_kind)>, NormKind> &&
                               requires { std::bool_constant<(P::norm_kind == NormKind::layer_norm)>{}; });
template <class P>
concept mentions_unit_matrices = requires {
    P::unit_matrices;
};
template <class P>
concept has_usable_unit_matrices =
    !mentions_unit_matrices<P> || (std::same_as<std::remove_cv_t<decltype(P::unit_matrices)>, bool> &&
                                   requires { std::bool_constant<P::unit_matrices>{}; });

}  // namespace placement_requirement

/// A layer-norm placement: a `name`, a `formula` with exactly one `f` and one slot per `norm`, how the stack ends, and
/// optionally `gain(role, depth)`, the factor on the initial standard deviation of a weight matrix, and
/// `inside(depth)`, the norms inside the sublayer, `norm_kind`, the one kind of norm that the placement is made for,
/// and `unit_matrices`, whether its matrices start and are kept as unit vectors (nn/unit_matrices.hpp). A stack ends in
/// a norm, or not (`final_norm`), or in a formula of its streams (`output`) with at most one norm.
template <class P>
concept Placement = placement_requirement::has_name<P> && placement_requirement::has_formula<P> &&
    placement_requirement::has_one_sublayer<P> && placement_requirement::has_distinct_slots<P> &&
    placement_requirement::has_its_streams<P> && placement_requirement::has_an_end<P> &&
    placement_requirement::has_usable_gain<P> && placement_requirement::has_usable_inside<P> &&
    placement_requirement::has_usable_norm_kind<P> && placement_requirement::has_usable_unit_matrices<P>;

/// Names the requirement that `P` misses, one sentence each. True when `P` is a placement.
template <class P>
constexpr bool explain_placement() {
    namespace requirement = placement_requirement;
    static_assert(requirement::has_name<P>,
                  "normplace: a placement needs a name: static constexpr auto name = \"my-placement\";");
    static_assert(
        requirement::has_formula<P>,
        "normplace: a placement needs a formula of x, f and norm: static constexpr auto formula = x + f(norm(x));");
    static_assert(
        !requirement::has_formula<P> || requirement::has_one_sublayer<P>,
        "normplace: a placement's formula must contain f exactly once (the same f(...) may be written again).");
    static_assert(
        !requirement::has_formula<P> || requirement::has_distinct_slots<P>,
        "normplace: a placement's formula uses one norm slot twice; give each norm its own: norm<in>, norm<out>. "
        "Learned factors have a name each, too: write x + g * (f(x) - x).");
    static_assert(!requirement::has_formula<P> || requirement::has_its_streams<P>,
                  "normplace: a placement's formula reads a stream that it does not give: streams(..., ...).");
    static_assert(!(requirement::mentions_output<P> && requirement::mentions_final_norm<P>),
                  "normplace: a placement has a final_norm or an output, not both.");
    static_assert(requirement::mentions_output<P> || !requirement::has_its_streams<P> || requirement::has_one_end<P> ||
                      !requirement::mentions_final_norm<P>,
                  "normplace: a placement with several streams says what the stack gives: static constexpr auto output "
                  "= x + norm(r);");
    static_assert(requirement::mentions_output<P> || requirement::has_final_norm<P>,
                  "normplace: a placement must say whether the stack ends in a norm: static constexpr bool final_norm "
                  "= true;");
    static_assert(!requirement::mentions_output<P> || requirement::has_output<P>,
                  "normplace: a placement's output is a formula of its streams without f, and with at most one norm: "
                  "static constexpr auto output = x + norm(r);");
    static_assert(requirement::has_usable_gain<P>,
                  "normplace: a placement's gain must be callable as static double gain(Role, const Depth&);");
    static_assert(requirement::has_usable_inside<P>,
                  "normplace: a placement's inside must be callable as static SublayerNorms inside(const Depth&);");
    static_assert(requirement::has_usable_norm_kind<P>,
                  "normplace: a placement's norm_kind is a constant: static constexpr auto norm_kind = "
                  "NormKind::unit_norm;");
    static_assert(requirement::has_usable_unit_matrices<P>,
                  "normplace: a placement's unit_matrices is a constant: static constexpr bool unit_matrices = true;");
    return Placement<P>;
}

/// P::norm_kind, or none.
template <class P>
constexpr std::optional<NormKind> norm_kind_of() {
    if constexpr (placement_requirement::mentions_norm_kind<P>) return P::norm_kind;
    else return {};
}

/// Says why a placement makes no sense with a kind of norm, one sentence each; the compiler names both. True when it
/// does. A kind that is chosen at run time (AnyNorm) nobody asks: it may be an experiment.
template <class P, NormKind kind>
constexpr bool explain_norm_kind() {
    constexpr bool own = norm_kind_of<P>().value_or(kind) == kind;
    constexpr bool has_gain = kind != NormKind::unit_norm || !syntax::has_norm_start(P::formula);
    constexpr bool divides = divides_by_size(kind) || !syntax::weighs_stream_in_norm(P::formula);
    static_assert(
        own,
        "normplace: this placement is made for one kind of norm, its norm_kind, and this is another: give "
        "Encoder<NGPT, float, UnitNorm<float>> the norm, or AnyNorm<float>, which takes that kind by itself.");
    static_assert(has_gain,
                  "normplace: this placement starts a norm's gain at another number than 1, and UnitNorm has no gain.");
    static_assert(divides,
                  "normplace: this placement weighs the stream against f(x) inside a norm, norm(alpha * x + f(x)), "
                  "which says something only if the norm divides by the sum's size: CentreNorm and DyT do not.");
    return own && has_gain && divides;
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

namespace detail {
inline SublayerNorms no_norms_inside(const Depth&) { return {}; }
/// P::inside, or none.
template <class P>
constexpr auto inside_of() -> SublayerNorms (*)(const Depth&) {
    if constexpr (placement_requirement::mentions_inside<P>) return &P::inside;
    else return &no_norms_inside;
}
template <class P>
constexpr bool has_unit_matrices() {
    if constexpr (placement_requirement::mentions_unit_matrices<P>) return P::unit_matrices;
    else return false;
}
}  // namespace detail

/// How the stack ends: P::output, or norm(x), or x.
template <class P>
constexpr Formula output_of() {
    if constexpr (placement_requirement::mentions_output<P>) return P::output;
    else return P::final_norm ? norm(x) : x;
}

/// The number of residual streams.
template <class P>
inline constexpr std::size_t stream_count = P::formula.result_count;

/// A placement as a value: what runs it and predicts it is compiled once for all of them.
struct AnyPlacement {
    std::string_view name;
    Formula formula;
    Formula output;  ///< of the stack, from its streams
    double (*gain)(Role, const Depth&);
    SublayerNorms (*inside)(const Depth&) = &detail::no_norms_inside;
    std::optional<NormKind> norm_kind{};
    bool unit_matrices = false;

    constexpr bool has_norms_inside() const { return inside != &detail::no_norms_inside; }
    /// The kind of its norms: its own, or the one that is asked for.
    constexpr NormKind norm_or(NormKind asked) const { return norm_kind.value_or(asked); }
    constexpr std::size_t streams() const { return formula.result_count; }
    /// By what the placement multiplies what enters a stack.
    double embedding_gain(const Depth& first) const { return gain(Role::embedding, first); }
    /// Whether a norm of the streams, or of one of them, comes before the readout.
    constexpr bool final_norm() const { return syntax::count_norms(output) > 0; }
};
template <class P>
inline constexpr AnyPlacement any_placement{P::name,
                                            P::formula,
                                            output_of<P>(),
                                            &initial_gain<P>,
                                            detail::inside_of<P>(),
                                            norm_kind_of<P>(),
                                            detail::has_unit_matrices<P>()};

}  // namespace normplace
