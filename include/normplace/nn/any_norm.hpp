// SPDX-License-Identifier: BSD-3-Clause
//
// A norm whose kind is known only at run time: what a program builds from a flag. It is one of the others inside, runs
// as that does, and has its parameters.
#pragma once

#include <tuple>
#include <utility>
#include <variant>

#include <normplace/nn/dyt.hpp>
#include <normplace/nn/norm.hpp>

namespace normplace {

/// The norm of `options.kind`.
template <class T>
class AnyNorm {
    using Kinds = std::variant<LayerNorm<T>, RMSNorm<T>, ScaleNorm<T>, UnitOffsetLayerNorm<T>, UnitOffsetRMSNorm<T>,
                               CentreNorm<T>, UnitNorm<T>, DyT<T>>;
    template <class>
    struct Caches;
    template <class... N>
    struct Caches<std::variant<N...>> {
        std::tuple<typename N::Cache...> all;
    };

public:
    using Scalar = T;
    using Options = NormOptions;
    using SumsTerms = AnyNorm;

    struct Gradients {
        Vector<T> alpha, gain, bias;  // empty where the kind has none
        template <class Self>
        static auto members(Self& self) {
            if constexpr (requires { self.norm; })
                return std::visit(
                    [&](auto& norm) {
                        auto* alpha = &self.none;
                        if constexpr (requires { norm.alpha; }) alpha = &norm.alpha;
                        return std::make_tuple(named("alpha", *alpha), named("gain", norm.gain),
                                               named("bias", norm.bias));
                    },
                    self.norm);
            else return std::make_tuple(named("alpha", self.alpha), named("gain", self.gain), named("bias", self.bias));
        }
    };
    using Cache = Caches<Kinds>;  // only that of the norm's kind is used

    Kinds norm;      ///< std::get<RMSNorm<T>>(norm.norm) is that
    Vector<T> none;  // stands for a parameter that the kind does not have

    AnyNorm() = default;
    /// @throws std::invalid_argument as the kind's own constructor
    explicit AnyNorm(const NormOptions& options) {
        switch (options.kind) {
            case NormKind::layer_norm: norm = LayerNorm<T>(options); break;
            case NormKind::rms_norm: norm = RMSNorm<T>(options); break;
            case NormKind::scale_norm: norm = ScaleNorm<T>(options); break;
            case NormKind::unit_offset_layer_norm: norm = UnitOffsetLayerNorm<T>(options); break;
            case NormKind::unit_offset_rms_norm: norm = UnitOffsetRMSNorm<T>(options); break;
            case NormKind::centre_norm: norm = CentreNorm<T>(options); break;
            case NormKind::unit_norm: norm = UnitNorm<T>(options); break;
            case NormKind::dyt: norm = DyT<T>(options); break;
        }
    }

    std::size_t width() const {
        return std::visit([](const auto& norm) { return norm.width(); }, norm);
    }

    /// y (B, S, D); y may be x.
    void forward(const Activations<T>& x, Activations<T>& y, Cache& cache) const {
        with(cache, [&](const auto& norm, auto& own) { norm.forward(x, y, own); });
    }
    void forward_sum(const detail::Term<T>* terms, std::size_t count, const detail::Shape<3>& shape, Activations<T>& y,
                     Cache& cache) const {
        with(cache, [&](const auto& norm, auto& own) { norm.forward_sum(terms, count, shape, y, own); });
    }

    /// dx may be dy. Adds to gradients.
    void backward(const Activations<T>& dy, Activations<T>& dx, Cache& cache, Gradients& gradients) const {
        backward_sum(dy, T(1), nullptr, 0, dx, cache, gradients);
    }
    void backward_sum(const Activations<T>& dy, T factor, const detail::Term<T>* terms, std::size_t count,
                      Activations<T>& dx, Cache& cache, Gradients& gradients) const {
        with(cache, [&](const auto& norm, auto& own) {
            // The kind's own gradients, for as long as it takes: moving a tensor moves no entry.
            typename std::decay_t<decltype(norm)>::Gradients lent;
            const auto exchange = [&] {
                if constexpr (requires { lent.alpha; }) std::swap(lent.alpha, gradients.alpha);
                std::swap(lent.gain, gradients.gain);
                std::swap(lent.bias, gradients.bias);
            };
            exchange();
            const Afterwards<decltype(exchange)> back{exchange};
            norm.backward_sum(dy, factor, terms, count, dx, own, lent);
        });
    }

private:
    /// Calls it when the scope is left, by an exception too.
    template <class Function>
    struct Afterwards {
        const Function& function;
        ~Afterwards() { function(); }
    };

    template <class Body>
    void with(Cache& cache, const Body& body) const {
        std::visit(
            [&](const auto& norm) { body(norm, std::get<typename std::decay_t<decltype(norm)>::Cache>(cache.all)); },
            norm);
    }
};

}  // namespace normplace
