// SPDX-License-Identifier: BSD-3-Clause
//
// The residual block: a sublayer, and a placement that says where its norms go. The block knows no placement by name.
// It walks the placement's formula (placement/formula.hpp) twice: forward, computing it on tensors, and backward, as
// the adjoint of the same tree.
#pragma once

#include <array>
#include <tuple>
#include <type_traits>
#include <utility>

#include <normplace/detail/kernels.hpp>
#include <normplace/detail/parallel.hpp>
#include <normplace/nn/norm.hpp>
#include <normplace/nn/parameters.hpp>
#include <normplace/nn/sublayer.hpp>
#include <normplace/placement/placement.hpp>
#include <normplace/placement/print.hpp>

namespace normplace {

namespace detail {
/// norm_name(slot), "norm" or "norm_in", in memory that outlives every walk over the parameters.
template <Label slot>
struct NormName {
    static constexpr auto text = [] {
        std::array<char, 5 + sizeof(Label)> all{"norm"};
        std::size_t end = 4;
        if (!slot.view().empty()) all[end++] = '_';
        for (const char letter : slot.view()) all[end++] = letter;
        return all;
    }();
};
}  // namespace detail

/// y = P::formula, with f the sublayer S and norm the normalization N. Parameters, caches and gradients are three
/// separate things, so one block serves many threads.
///
///     ResidualBlock<PreLN, FeedForward<float>> block({.width = 512, .feed_forward = 2048}, {.layer = 3, .layers =
///     12});
///
///     block.forward(x, y, cache);  // x, y: (B, S, D)
///
///     block.backward(dy, dx, cache, gradients);
template <class P, class S, class N = LayerNorm<typename detail::SublayerScalar<S>::type>>
class ResidualBlock {
    static_assert(explain_placement<P>());
    static_assert(
        normplace::Sublayer<S>,
        "normplace: a sublayer needs Scalar, Options, Cache, Gradients, kind, width() and initialize(initializer).");
    static_assert(std::constructible_from<N, NormOptions> && std::same_as<typename N::Scalar, typename S::Scalar>,
                  "normplace: a norm is made from NormOptions, and has the sublayer's Scalar: LayerNorm<float> with "
                  "FeedForward<float>.");
    static constexpr auto slots = syntax::slots(P::formula);
    static constexpr std::size_t norm_count = slots.size();
    /// LayerNorm and RMSNorm take a sum for their argument, a factor on their gradient, and work in place.
    static constexpr bool library_norm =
        std::same_as<N, LayerNorm<typename N::Scalar>> || std::same_as<N, RMSNorm<typename N::Scalar>>;

public:
    using Placement = P;
    using Sublayer = S;
    using Norm = N;
    using Scalar = typename S::Scalar;
    using Tensor = Activations<Scalar>;

    struct Gradients {
        typename S::Gradients sublayer;
        std::array<typename N::Gradients, norm_count> norms;

        /// The sublayer's parameters stand beside the norms': `query.weight`, `norm.gain` (`norm_in.gain` for slot
        /// `in`).
        template <class Self>
        static auto members(Self& self) {
            return [&]<std::size_t... i>(std::index_sequence<i...>) {
                return std::make_tuple(named("", self.sublayer),
                                       named(detail::NormName<slots[i]>::text.data(), self.norms[i])...);
            }
            (std::make_index_sequence<norm_count>{});
        }
    };
    struct Cache {
        /// Of one node of the formula, f or norm: memory for what it computes, and on the way back for the gradient of
        /// its argument, where neither can go into the result's. `argument` is used only where a norm of the user's
        /// has a sum for its argument, and where a gradient is scaled before the node takes it.
        struct Node {
            Tensor value, argument;
        };
        typename S::Cache sublayer;
        std::array<typename N::Cache, norm_count> norms;
        std::array<Node, norm_count + 1> nodes;  // the norms in the order of the slots, then f
        detail::Shape<3> shape{};                // of x
    };

    S sublayer;
    std::array<N, norm_count> norms;

    /// @param depth where the block stands: a placement's scalars and gains may depend on it
    /// @throws std::invalid_argument when the sublayer or the norm refuses its options, or the depth is not in its
    /// stack
    explicit ResidualBlock(const typename S::Options& options, const Depth& depth = {}, double epsilon = 1e-5,
                           bool norm_bias = true)
        : sublayer(options), depth_{depth.layer, depth.layers, S::kind} {
        depth.check();
        for (N& norm : norms) norm = N(NormOptions{sublayer.width(), epsilon, norm_bias});
    }

    const Depth& depth() const { return depth_; }
    std::size_t width() const { return sublayer.width(); }

    /// Draws the sublayer's weights: the scheme's standard deviation times the placement's gain.
    void initialize(RandomEngine& random, const Initialization& scheme = Initialization::xavier()) {
        sublayer.initialize(Initializer(random, scheme, depth_, &initial_gain<P>));
    }

    /// y (B, S, D) = formula of x (B, S, D). `context` goes to the sublayer.
    /// @throws std::invalid_argument when x is not (B, S, D) or y is x
    template <class... Context>
    void forward(const Tensor& x, Tensor& y, Cache& cache, const Context&... context) const {
        detail::require_width("ResidualBlock", "x", x, width());
        detail::require_distinct("ResidualBlock", "x", x, "y", y);
        (detail::require_distinct("ResidualBlock", "a context argument", context, "y", y), ...);
        cache.shape = detail::shape_of(x);
        const auto run_sublayer = [&](const Tensor& input, Tensor& output) {
            sublayer.forward(input, output, cache.sublayer, context...);
        };
        evaluate(P::formula, Forward<decltype(run_sublayer)>{x, cache, run_sublayer}, y);
    }

    /// Sets dx (B, S, D) to dLoss/dx, given dy = dLoss/dy of the last forward with this cache, which it uses up. Adds
    /// to gradients. `context` goes to the sublayer.
    /// @throws std::invalid_argument when dy has not the shape of that forward's x, or dx is dy
    template <class... Context>
    void backward(const Tensor& dy, Tensor& dx, Cache& cache, Gradients& gradients, Context&... context) const {
        detail::require_filled("ResidualBlock", cache.shape != detail::Shape<3>{});
        detail::require_shape("ResidualBlock", "dy", dy, cache.shape);
        detail::require_distinct("ResidualBlock", "dy", dy, "dx", dx);
        (detail::require_distinct("ResidualBlock", "a context argument", context, "dx", dx), ...);
        (detail::require_distinct("ResidualBlock", "a context argument", context, "dy", dy), ...);
        detail::reshape(dx, cache.shape);
        cache.shape = {};
        const auto run_sublayer = [&](const Tensor& output_gradient, Tensor& input_gradient) {
            sublayer.backward(output_gradient, input_gradient, cache.sublayer, gradients.sublayer, context...);
        };
        Terms<syntax::count(P::formula).streams> at_x;
        Destination destination{dx};
        adjoint(P::formula, Backward<decltype(run_sublayer)>{destination, cache, gradients, run_sublayer, at_x},
                Scalar(1), dy, nullptr);
        if (!destination.complete) at_x.sum(dx);
    }

private:
    /// The terms of a sum, gathered so that one pass over memory adds them all.
    template <std::size_t most>
    struct Terms {
        std::array<detail::Term<Scalar>, most> terms;
        std::size_t count = 0;

        void add(Scalar factor, const Tensor& tensor) { terms[count++] = {factor, tensor.data()}; }
        void sum(Tensor& to) const {
            detail::parallel_ranges(to.size(), static_cast<double>(to.size() * count),
                                    [&](std::size_t begin, std::size_t end, std::size_t) {
                                        NORMPLACE_KERNEL(combine, terms.data(), count, to.data(), begin, end - begin);
                                    });
        }
    };

    template <class Run>
    struct Forward {
        const Tensor& x;
        Cache& cache;
        const Run& run_sublayer;
    };
    struct Destination {
        Tensor& dx;
        bool free = true;       // nobody works in dx's memory yet
        bool complete = false;  // the sum of all gradients at x
    };
    template <class Run>
    struct Backward {
        Destination& destination;
        Cache& cache;
        Gradients& gradients;
        const Run& run_sublayer;
        Terms<syntax::count(P::formula).streams>& at_x;  // the gradients that arrive at x
    };

    // Forward: evaluate(e) writes the value of e to `value`; value_of(e) is the value where it already lies, if it
    // does.

    template <class State>
    void evaluate(syntax::Stream, const State& state, Tensor& value) const {
        detail::copy(state.x, value);
    }
    template <Label slot, class Input, class State>
    void evaluate(const syntax::Norm<slot, Input>& e, const State& state, Tensor& value) const {
        constexpr std::size_t i = syntax::slot_index(slots, slot);
        if constexpr (library_norm) {
            Terms<syntax::count_terms(Input{})> terms;
            Tensor* free = &value;
            gather(e.input, state, Scalar(1), terms, free);
            norms[i].forward_sum(terms.terms.data(), terms.count, state.cache.shape, value, state.cache.norms[i]);
        } else {  // a norm of the user's
            norms[i].forward(value_of(e.input, state, state.cache.nodes[i].argument), value, state.cache.norms[i]);
            detail::require_shape("ResidualBlock", "the norm's y", value, state.cache.shape);
        }
    }
    template <class Input, class State>
    void evaluate(const syntax::Sublayer<Input>& e, const State& state, Tensor& value) const {
        state.run_sublayer(value_of(e.input, state, sublayer_input(state.cache)), value);
        detail::require_shape("ResidualBlock", "the sublayer's y", value, state.cache.shape);
    }
    template <class E, class State>
    void evaluate(const E& e, const State& state, Tensor& value) const {  // a sum, or scaled
        Terms<syntax::count_terms(E{})> terms;
        Tensor* free = &value;
        gather(e, state, Scalar(1), terms, free);
        detail::reshape(value, state.cache.shape);
        terms.sum(value);
    }

    template <class State>
    const Tensor& value_of(syntax::Stream, const State& state, Tensor&) const {
        return state.x;
    }
    template <class E, class State>
    const Tensor& value_of(const E& e, const State& state, Tensor& buffer) const {
        evaluate(e, state, buffer);
        return buffer;
    }
    /// Where f's input is made: in the sublayer's own cache, if it says that it keeps it there.
    static Tensor& sublayer_input(Cache& cache) {
        if constexpr (requires { requires S::input_in_cache; }) return cache.sublayer.x;
        else return cache.nodes[norm_count].argument;
    }

    // The terms of a sum. The first that has to be computed goes into `free`, the memory of the sum itself.

    template <class Left, class Right, class State, class Sum>
    void gather(const syntax::Sum<Left, Right>& e, const State& state, Scalar factor, Sum& terms, Tensor*& free) const {
        gather(e.left, state, factor, terms, free);
        gather(e.right, state, factor, terms, free);
    }
    template <class Input, class State, class Sum>
    void gather(const syntax::Scaled<Input>& e, const State& state, Scalar factor, Sum& terms, Tensor*& free) const {
        gather(e.input, state, factor * static_cast<Scalar>(e.factor.at(depth_)), terms, free);
    }
    template <class State, class Sum>
    void gather(syntax::Stream, const State& state, Scalar factor, Sum& terms, Tensor*&) const {
        terms.add(factor, state.x);
    }
    template <class E, class State, class Sum>
    void gather(const E& e, const State& state, Scalar factor, Sum& terms, Tensor*& free) const {  // a norm, or f
        Tensor& value = free ? *free : state.cache.nodes[node_of(e)].value;
        free = nullptr;
        evaluate(e, state, value);
        terms.add(factor, value);
    }

    // Backward: the gradient at e is factor * gradient; it goes on to e's inputs, and at x it joins the others. Where
    // nobody else reads the gradient, `own` points to it, and e may overwrite it; else `own` is null.

    template <class State>
    void adjoint(syntax::Stream, const State& state, Scalar factor, const Tensor& gradient, Tensor*) const {
        state.at_x.add(factor, gradient);
    }
    template <class Left, class Right, class State>
    void adjoint(const syntax::Sum<Left, Right>& e, const State& state, Scalar factor, const Tensor& gradient,
                 Tensor*) const {
        adjoint(e.left, state, factor, gradient, nullptr);
        adjoint(e.right, state, factor, gradient, nullptr);
    }
    template <class Input, class State>
    void adjoint(const syntax::Scaled<Input>& e, const State& state, Scalar factor, const Tensor& gradient,
                 Tensor* own) const {
        adjoint(e.input, state, factor * static_cast<Scalar>(e.factor.at(depth_)), gradient, own);
    }
    template <Label slot, class Input, class State>
    void adjoint(const syntax::Norm<slot, Input>& e, const State& state, Scalar factor, const Tensor& gradient,
                 Tensor* own) const {
        constexpr std::size_t i = syntax::slot_index(slots, slot);
        auto& [value, argument] = state.cache.nodes[i];
        if constexpr (library_norm) {
            auto& at_x = state.at_x;
            // The last gradient to arrive at x: the norm adds the others to it as it writes.
            const bool sums = std::same_as<Input, syntax::Stream> && at_x.count + 1 == at_x.terms.size();
            Tensor& input = sums ? state.destination.dx : own ? *own : free_memory(state, value);
            norms[i].backward_sum(gradient, factor, at_x.terms.data(), sums ? at_x.count : 0, input,
                                  state.cache.norms[i], state.gradients.norms[i]);
            state.destination.complete = sums;
            adjoint(e.input, state, Scalar(1), input, &input);
        } else {
            norms[i].backward(scaled(factor, gradient, argument), value, state.cache.norms[i],
                              state.gradients.norms[i]);
            detail::require_shape("ResidualBlock", "the norm's dx", value, detail::shape_of(gradient));
            adjoint(e.input, state, Scalar(1), value, &value);
        }
    }
    template <class Input, class State>
    void adjoint(const syntax::Sublayer<Input>& e, const State& state, Scalar factor, const Tensor& gradient,
                 Tensor*) const {
        auto& [value, argument] = state.cache.nodes[norm_count];
        Tensor& input = free_memory(state, value);
        state.run_sublayer(scaled(factor, gradient, argument), input);
        detail::require_shape("ResidualBlock", "the sublayer's dx", input, detail::shape_of(gradient));
        adjoint(e.input, state, Scalar(1), input, &input);
    }

    template <Label slot, class Input>
    static constexpr std::size_t node_of(const syntax::Norm<slot, Input>&) {
        return syntax::slot_index(slots, slot);
    }
    template <class Input>
    static constexpr std::size_t node_of(const syntax::Sublayer<Input>&) {
        return norm_count;
    }

    /// dx itself for the first who asks; afterwards the node's own.
    template <class State>
    static Tensor& free_memory(const State& state, Tensor& own) {
        return std::exchange(state.destination.free, false) ? state.destination.dx : own;
    }

    static const Tensor& scaled(Scalar factor, const Tensor& tensor, Tensor& scratch) {
        if (factor == Scalar(1)) return tensor;
        Terms<1> term;
        term.add(factor, tensor);
        detail::reshape(scratch, detail::shape_of(tensor));
        term.sum(scratch);
        return scratch;
    }

    Depth depth_;
};

}  // namespace normplace
