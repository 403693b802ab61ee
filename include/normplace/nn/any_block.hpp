// SPDX-License-Identifier: BSD-3-Clause
//
// The residual block of any placement: it follows the plan of the placement's formula (placement/plan.hpp) at its
// place in the stack, forward on tensors, and backward in the opposite order. It is compiled once for a sublayer and a
// norm, whatever the placement.
#pragma once

#include <array>
#include <concepts>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <normplace/detail/kernels.hpp>
#include <normplace/detail/parallel.hpp>
#include <normplace/nn/gate.hpp>
#include <normplace/nn/norm.hpp>
#include <normplace/nn/parameters.hpp>
#include <normplace/nn/step_places.hpp>
#include <normplace/nn/sublayer.hpp>
#include <normplace/nn/unit_matrices.hpp>
#include <normplace/placement/placement.hpp>
#include <normplace/placement/plan.hpp>
#include <normplace/placement/print.hpp>

namespace normplace {

template <class S, class N>
class AnyBlock {
    /// Takes a sum for its argument, a factor on its gradient, and works in place, as the library's norms do.
    static constexpr bool sums_terms = SummingNorm<N>;

public:
    using Sublayer = S;
    using Norm = N;
    using Scalar = typename S::Scalar;
    using Tensor = Activations<Scalar>;

    struct Gradients {
        typename S::Gradients sublayer;
        detail::NamedElements<typename N::Gradients> norms;
        detail::NamedElements<Vector<Scalar>> gates;

        /// The sublayer's parameters stand beside the norms' and gates': `query.weight`, `norm.gain` (`norm_in.gain`
        /// for slot `in`), `lambda`.
        template <class Self>
        static auto members(Self& self) {
            return std::make_tuple(named("", self.sublayer), named("", self.norms), named("", self.gates));
        }
    };
    struct Cache {
        /// Of one step of the plan: memory for its value, and on the way back for the gradient of its input, where
        /// neither can go into the result's. `argument` is used only where the step needs a sum in one piece, or a
        /// gradient that has been scaled.
        struct Node {
            Tensor value, argument;
        };
        typename S::Cache sublayer;
        std::vector<typename N::Cache> norms;
        std::vector<Tensor> gated;  // what each gate multiplies
        /// The gates that the layer's first block lends to the others, and their gradients: set by the layer before
        /// forward, and before backward. A placement has them that shares a learned number.
        const detail::NamedElements<Vector<Scalar>>* lent = nullptr;
        detail::NamedElements<Vector<Scalar>>* lent_gradients = nullptr;
        std::vector<Node> nodes;
        std::vector<Tensor*> gradients;  // of each step's input, while backward runs
        detail::Shape<3> shape{};        // of a stream
    };

    S sublayer;
    detail::NamedElements<N> norms;
    detail::NamedElements<Vector<Scalar>> gates;  ///< D entries each, or one

    /// @throws std::invalid_argument when the sublayer or the norm refuses its options, the norm is of another kind
    /// than the placement's own, the depth is not in its stack, or a scalar is not finite there
    AnyBlock(const AnyPlacement& placement, const typename S::Options& options, const Depth& depth,
             const NormOptions& norm)
        : AnyBlock(placement, placement.formula, with_norms(placement, options, checked(depth), norm), checked(depth),
                   norm) {}
    /// The end of a stack: the placement's output, without a sublayer.
    static AnyBlock output(const AnyPlacement& placement, const typename S::Options& options, const Depth& last,
                           const NormOptions& norm) {
        return {placement, placement.output, options, last, norm, "final_norm"};
    }

    const Depth& depth() const { return depth_; }
    std::size_t width() const { return sublayer.width(); }
    std::size_t streams() const { return plan_.streams; }

    /// Draws the sublayer's weights: the scheme's standard deviation times the placement's gain, or unit vectors where
    /// the placement wants these. Norms and gates keep the values that they start with.
    void initialize(RandomEngine& random, const Initialization& scheme = Initialization::xavier()) {
        sublayer.initialize(Initializer(random, scheme, depth_, gain_));
        if (unit_matrices_) normalise_matrices(sublayer);
    }

    /// y (B, S, D) = formula of x (B, S, D), for a placement with one stream. `context` goes to the sublayer.
    /// @throws std::invalid_argument when x is not (B, S, D) or y is x
    template <class... Context>
    void forward(const Tensor& x, Tensor& y, Cache& cache, const Context&... context) const {
        forward(std::span(&x, 1), std::span(&y, 1), cache, context...);
    }

    /// y (B, S, D) of every stream, from x (B, S, D) of every stream.
    /// @throws std::invalid_argument when there are not as many as the placement has
    template <class... Context>
    void forward(std::span<const Tensor> x, std::span<Tensor> y, Cache& cache, const Context&... context) const {
        require_streams("x", x.size(), plan_.streams);
        require_streams("y", y.size(), plan_.results.size());
        for (const Tensor& stream : x) {
            detail::require_width("ResidualBlock", "x", stream, width());
            detail::require_shape("ResidualBlock", "x", stream, detail::shape_of(x[0]));
            for (const Tensor& to : y) detail::require_distinct("ResidualBlock", "x", stream, "y", to);
        }
        for (const Tensor& to : y)
            (detail::require_distinct("ResidualBlock", "a context argument", context, "y", to), ...);
        cache.shape = detail::shape_of(x[0]);
        cache.norms.resize(norms.size());
        cache.gated.resize(plan_.gates.size());
        cache.nodes.resize(plan_.steps.size());

        const auto place = [&](std::size_t step) -> Tensor& {
            switch (places_[step]) {
                case detail::StepPlace::result: return y[0];
                case detail::StepPlace::sublayer_input: return sublayer_input(cache);
                default: return cache.nodes[step].value;
            }
        };
        const auto tensor = [&](std::size_t source) -> const Tensor& {
            return source < plan_.streams ? x[source] : place(source - plan_.streams);
        };
        const auto gather = [&](const Plan::Terms& input) {
            Terms terms;
            for (const Plan::Term& term : input)
                terms.add(static_cast<Scalar>(term.factor), tensor(term.source).data());
            return terms;
        };
        // The sum itself where it lies somewhere already, or else in `memory`.
        const auto sum = [&](const Plan::Terms& input, Tensor& memory) -> const Tensor& {
            if (detail::is_plain(input)) return tensor(input[0].source);
            detail::reshape(memory, cache.shape);
            gather(input).sum(memory);
            return memory;
        };
        for (std::size_t k = 0; k < plan_.steps.size(); ++k) {
            const Plan::Step& step = plan_.steps[k];
            Tensor& value = place(k);
            if (step.kind == Node::Kind::sublayer) {
                sublayer.forward(sum(step.input, sublayer_input(cache)), value, cache.sublayer, context...);
                detail::require_shape("ResidualBlock", "the sublayer's y", value, cache.shape);
            } else if (step.kind == Node::Kind::gated) {
                Tensor& argument = cache.gated[step.index];
                detail::reshape(argument, cache.shape);
                gather(step.input).sum(argument);
                detail::gate_forward(gate(gates, cache.lent, step.index), argument, value);
            } else if constexpr (sums_terms) {
                const Terms terms = gather(step.input);
                norms[step.index].forward_sum(terms.terms.data(), terms.count, cache.shape, value,
                                              cache.norms[step.index]);
            } else {
                norms[step.index].forward(sum(step.input, cache.nodes[k].argument), value, cache.norms[step.index]);
                detail::require_shape("ResidualBlock", "the norm's y", value, cache.shape);
            }
        }
        for (std::size_t k = 0; k < y.size(); ++k) {
            const Plan::Terms& result = plan_.results[k];
            if (detail::is_plain(result) && &tensor(result[0].source) == &y[k]) continue;
            detail::reshape(y[k], cache.shape);
            gather(result).sum(y[k]);
        }
    }

    /// Sets dx (B, S, D) to dLoss/dx, given dy = dLoss/dy of the last forward with this cache, which it uses up. Adds
    /// to gradients. `context` goes to the sublayer.
    /// @throws std::invalid_argument when dy has not the shape of that forward's x, or dx is dy
    template <class... Context>
    void backward(const Tensor& dy, Tensor& dx, Cache& cache, Gradients& gradients, Context&... context) const {
        backward(std::span(&dy, 1), std::span(&dx, 1), cache, gradients, context...);
    }

    template <class... Context>
    void backward(std::span<const Tensor> dy, std::span<Tensor> dx, Cache& cache, Gradients& gradients,
                  Context&... context) const {
        require_streams("dy", dy.size(), plan_.results.size());
        require_streams("dx", dx.size(), plan_.streams);
        detail::require_filled("ResidualBlock", cache.shape != detail::Shape<3>{});
        require_own(cache, gradients);
        for (const Tensor& gradient : dy) {
            detail::require_shape("ResidualBlock", "dy", gradient, cache.shape);
            (detail::require_distinct("ResidualBlock", "a context argument", context, "dy", gradient), ...);
            for (const Tensor& to : dx) detail::require_distinct("ResidualBlock", "dy", gradient, "dx", to);
        }
        for (Tensor& to : dx) {
            (detail::require_distinct("ResidualBlock", "a context argument", context, "dx", to), ...);
            detail::reshape(to, cache.shape);
        }
        cache.gradients.assign(plan_.steps.size(), nullptr);
        bool dx_is_free = plan_.streams == 1;  // nobody works in dx's memory yet
        bool complete = false;                 // dx is the sum of all gradients at x

        // What arrives at a source from all that read it.
        const auto arriving = [&](std::size_t source) {
            Terms terms;
            const auto add = [&](const Plan::Terms& input, const Tensor& gradient) {
                for (const Plan::Term& term : input)
                    if (term.source == source) terms.add(static_cast<Scalar>(term.factor), gradient.data(), &gradient);
            };
            for (std::size_t k = 0; k < dy.size(); ++k) add(plan_.results[k], dy[k]);
            for (std::size_t k = 0; k < plan_.steps.size(); ++k)
                if (cache.gradients[k]) add(plan_.steps[k].input, *cache.gradients[k]);
            return terms;
        };
        for (std::size_t k = plan_.steps.size(); k-- > 0;) {
            const Plan::Step& step = plan_.steps[k];
            Tensor &value = cache.nodes[k].value, &argument = cache.nodes[k].argument;
            const auto free_memory = [&]() -> Tensor& { return std::exchange(dx_is_free, false) ? dx[0] : value; };
            Terms terms = arriving(plan_.streams + k);
            const auto in_one_piece = [&](bool unscaled) {
                if (terms.count == 1 && !(unscaled && terms.terms[0].factor != Scalar(1))) return;
                detail::reshape(argument, cache.shape);
                terms.sum(argument);
                terms.count = 0;
                terms.add(Scalar(1), argument.data(), &argument);
            };
            if (step.kind == Node::Kind::sublayer) {
                in_one_piece(true);
                Tensor& input = free_memory();
                sublayer.backward(*terms.tensors[0], input, cache.sublayer, gradients.sublayer, context...);
                detail::require_shape("ResidualBlock", "the sublayer's dx", input, cache.shape);
                cache.gradients[k] = &input;
            } else if (step.kind == Node::Kind::gated) {
                in_one_piece(false);
                Tensor& input = free_memory();
                detail::gate_backward(gate(gates, cache.lent, step.index), cache.gated[step.index], *terms.tensors[0],
                                      terms.terms[0].factor, input,
                                      gate(gradients.gates, cache.lent_gradients, step.index));
                cache.gradients[k] = &input;
            } else if constexpr (sums_terms) {
                in_one_piece(false);
                // The last gradient to arrive at x: the norm adds the others to it as it writes.
                const bool sums =
                    plan_.streams == 1 && detail::is_plain(step.input) && step.input[0].source == 0 && k == 0;
                Terms others;
                if (sums) others = arriving(0);
                Tensor* own = reusable(*terms.tensors[0], cache, argument, k);
                Tensor& input = sums ? dx[0] : own ? *own : free_memory();
                norms[step.index].backward_sum(*terms.tensors[0], terms.terms[0].factor, others.terms.data(),
                                               others.count, input, cache.norms[step.index],
                                               gradients.norms[step.index]);
                complete = sums;
                cache.gradients[k] = &input;
            } else {
                in_one_piece(true);
                norms[step.index].backward(*terms.tensors[0], value, cache.norms[step.index],
                                           gradients.norms[step.index]);
                detail::require_shape("ResidualBlock", "the norm's dx", value, cache.shape);
                cache.gradients[k] = &value;
            }
        }
        if (!complete)
            for (std::size_t s = 0; s < dx.size(); ++s) arriving(s).sum(dx[s]);
        cache.shape = {};
    }

private:
    AnyBlock(const AnyPlacement& placement, const Formula& formula, const typename S::Options& options,
             const Depth& depth, NormOptions norm, const char* prefix = "norm")
        : sublayer(options),
          depth_(depth),
          gain_(placement.gain),
          unit_matrices_(placement.unit_matrices),
          plan_(plan(formula, depth, placement.streams())),
          places_(detail::step_places(plan_, sums_terms)) {
        norm.width = sublayer.width();
        norm.kind = placement.norm_or(norm.kind);
        if constexpr (NormOfOneKind<N>)
            detail::require(placement.norm_kind.value_or(N::kind) == N::kind, "ResidualBlock", [&] {
                return std::string(placement.name) + " is made for " + std::string(name(*placement.norm_kind)) +
                       ", and the norm is " + std::string(name(N::kind)) + "; AnyNorm takes that kind by itself";
            });
        for (const Plan::Norm& planned : plan_.norms) {
            norm.gain = planned.start;
            norms.add(prefix + norm_name(planned.slot).substr(4), N(norm));
        }
        for (std::size_t g = 0; g < plan_.own_gates; ++g) {
            const Plan::Gate& gate = plan_.gates[g];
            Vector<Scalar> start;
            start.resize({gate.per_channel ? norm.width : std::size_t{1}});
            start.fill(static_cast<Scalar>(gate.start));
            gates.add(std::string(gate.name.view()), std::move(start));
        }
    }

    static Depth checked(const Depth& depth) {
        depth.check();
        Depth here = depth;
        here.sublayer = S::kind;
        return here;
    }
    /// The norms inside the sublayer are the placement's to choose.
    static typename S::Options with_norms(const AnyPlacement& placement, typename S::Options options,
                                          const Depth& depth, const NormOptions& norm) {
        if constexpr (requires { options.norms; }) {
            options.norms = placement.inside(depth);
            options.norm_epsilon = norm.epsilon;
            options.norm_kind = placement.norm_or(norm.kind);
        }
        return options;
    }

    /// The terms of a sum, gathered so that one pass over memory adds them all.
    struct Terms {
        static constexpr std::size_t most = 2 * Formula::most_nodes;
        std::array<detail::Term<Scalar>, most> terms;
        std::array<const Tensor*, most> tensors;
        std::size_t count = 0;

        void add(Scalar factor, const Scalar* data, const Tensor* tensor = nullptr) {
            terms[count] = {factor, data};
            tensors[count++] = tensor;
        }
        void sum(Tensor& to) const {
            if (count == 0) return to.fill(Scalar(0));
            detail::parallel_ranges(to.size(), static_cast<double>(to.size() * count),
                                    [&](std::size_t begin, std::size_t end, std::size_t) {
                                        NORMPLACE_KERNEL(combine, terms.data(), count, to.data(), begin, end - begin);
                                    });
        }
    };

    /// A gate, or its gradient: the block's own, or one that is lent to it.
    template <class Gates>
    auto& gate(Gates& own, Gates* lent, std::size_t index) const {
        if (index < plan_.own_gates) return own[index];
        const std::string_view name = plan_.gates[index].name.view();
        for (std::size_t g = 0; lent && g < lent->size(); ++g)
            if (lent->names[g] == name) return (*lent)[g];
        detail::refuse("ResidualBlock", "'" + std::string(name) +
                                            "' belongs to the first block of the layer, and is not lent: "
                                            "cache.lent and cache.lent_gradients");
    }

    void require_streams(const char* what, std::size_t count, std::size_t expected) const {
        detail::require(count == expected, "ResidualBlock", [&] {
            return std::string(what) + " has " + std::to_string(count) + " streams, expected " +
                   std::to_string(expected);
        });
    }

    /// Caches and gradients of all placements have one type.
    void require_own(const Cache& cache, const Gradients& gradients) const {
        detail::require(cache.nodes.size() == plan_.steps.size() && cache.norms.size() == norms.size() &&
                            cache.gated.size() == plan_.gates.size(),
                        "ResidualBlock", "the cache is that of a block with another placement");
        detail::require(gradients.norms.size() == norms.size() && gradients.gates.size() == gates.size(),
                        "ResidualBlock", [&] {
                            return "gradients have " + std::to_string(gradients.norms.size()) + " norms and " +
                                   std::to_string(gradients.gates.size()) + " learned factors, expected " +
                                   std::to_string(norms.size()) + " and " + std::to_string(gates.size()) +
                                   "; call zero_gradients first";
                        });
        for (std::size_t g = 0; g < gates.size(); ++g)
            detail::require_shape("ResidualBlock", "a learned factor's gradient", gradients.gates[g],
                                  detail::shape_of(gates[g]));
    }

    /// Where the sublayer's input is made: in its own cache, if it says that it keeps it there.
    Tensor& sublayer_input(Cache& cache) const {
        if constexpr (requires { requires S::input_in_cache; }) return cache.sublayer.x;
        else return cache.nodes[detail::sublayer_step(plan_)].argument;
    }

    /// The gradient's own memory, where nobody reads it after step k.
    Tensor* reusable(const Tensor& gradient, Cache& cache, Tensor& argument, std::size_t k) const {
        if (&gradient == &argument) return &argument;
        for (std::size_t later = k + 1; later < plan_.steps.size(); ++later)
            if (cache.gradients[later] == &gradient)
                return plan_.steps[later].input.size() == 1 ? cache.gradients[later] : nullptr;
        return nullptr;
    }

    Depth depth_;
    double (*gain_)(Role, const Depth&);
    bool unit_matrices_;
    Plan plan_;
    std::vector<detail::StepPlace> places_;
};

}  // namespace normplace
