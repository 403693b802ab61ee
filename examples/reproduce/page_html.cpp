// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <sstream>
#include <stdexcept>

#include "page_parts.hpp"
#include "page_style.hpp"

namespace reproduce {

namespace {

std::string escaped(const std::string& text) {
    std::string result;
    for (const char c : text) switch (c) {
            case '&': result += "&amp;"; break;
            case '<': result += "&lt;"; break;
            case '>': result += "&gt;"; break;
            case '"': result += "&quot;"; break;
            case '\'': result += "&#39;"; break;
            default: result += c;
        }
    return result;
}

std::string printed(const char* format, double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-∞" : "∞";
    char text[64];
    std::snprintf(text, sizeof text, format, value);
    return text;
}

/// To two digits of the error; to four digits where there is none, or where zeros would fill the page.
std::string printed(double value, double error) {
    if (!std::isfinite(error)) return printed("%.4g", value);
    const double digits = error > 0.0 ? 1.0 - std::floor(std::log10(error)) : 99.0;
    if (!(digits <= 6.0 && std::abs(value) < 1e6)) return printed("%.4g", value) + " ± " + printed("%.2g", error);
    const std::string format = "%." + std::to_string(std::max(0, static_cast<int>(digits))) + "f";
    return printed(format.c_str(), value) + " ± " + printed(format.c_str(), error);
}

/// gnuplot's file as an element of the page, without the titles that it makes up. Ids must be unique in a page, and
/// every file of gnuplot has the same.
std::string inlined(const std::string& svg, const std::string& title, const std::string& prefix) {
    const std::size_t begin = svg.find("<svg");
    if (begin == svg.npos) throw std::runtime_error("gnuplot's file for '" + title + "' is not an SVG");
    std::string result;
    for (std::size_t at = begin; at < svg.size();) {
        if (svg[at] != '<') {
            const std::size_t next = std::min(svg.find('<', at), svg.size());
            result += svg.substr(at, next - at);
            at = next;
            continue;
        }
        for (const std::string element : {"title", "desc"})
            if (svg.compare(at, element.size() + 2, "<" + element + ">") == 0) {
                const std::string closing = "</" + element + ">";
                at = std::min(svg.find(closing, at), svg.size() - closing.size()) + closing.size();
            }
        if (svg[at] != '<') continue;
        std::string tag = svg.substr(at, svg.find('>', at) - at + 1);
        at += tag.size();
        for (const std::string before : {" id='", " id=\"", "href='#", "href=\"#", "url(#"})
            for (std::size_t i = tag.find(before); i != tag.npos; i = tag.find(before, i + before.size()))
                tag.insert(i + before.size(), prefix);
        if (tag.starts_with("<svg")) tag.insert(4, " role=\"img\" aria-label=\"" + escaped(title) + "\"");
        result += tag;
    }
    return result;
}

struct VerdictText {
    const char *style, *text;
};

VerdictText text_of(Verdict verdict) {
    switch (verdict) {
        case Verdict::holds: return {"holds", "✓ holds"};
        case Verdict::does_not_hold: return {"fails", "✗ does not hold"};
        case Verdict::undecided: break;
    }
    return {"open", "? undecided"};
}

std::string verdict_cell(Verdict verdict) {
    const VerdictText text = text_of(verdict);
    return std::string("<td data-label=\"Verdict\" class=\"verdict ") + text.style + "\"><b>" + text.text + "</b></td>";
}

std::string claim_id(std::size_t figure, std::size_t claim) {
    return "claim-" + std::to_string(figure + 1) + "-" + std::to_string(claim + 1);
}

std::string paragraph(const std::string& text) {
    return text.empty() ? "" : "<p class=\"setting\">" + escaped(text) + "</p>\n";
}

std::string summary(const Page& page) {
    std::ostringstream rows;
    std::size_t count[3] = {0, 0, 0};
    for (std::size_t f = 0; f < page.figures.size(); ++f) {
        const Figure& figure = page.figures[f];
        for (std::size_t c = 0; c < figure.claims.size(); ++c) {
            const Claim& claim = figure.claims[c];
            ++count[static_cast<int>(claim.verdict)];
            rows << "<tr><td data-label=\"Figure\"><a href=\"#figure-" << f + 1 << "\">" << escaped(figure.title)
                 << "</a></td><td data-label=\"The paper says\"><a href=\"#" << claim_id(f, c) << "\">"
                 << escaped(claim.paper) << "</a></td>" << verdict_cell(claim.verdict) << "</tr>\n";
        }
    }
    if (rows.str().empty()) return "";
    std::ostringstream text;
    const std::size_t all = count[0] + count[1] + count[2];
    text << "<section id=\"claims\">\n<h2>The paper's claims</h2>\n<p>Of " << all
         << (all == 1 ? " claim, " : " claims, ") << count[0] << (count[0] == 1 ? " holds" : " hold") << " here, "
         << count[1] << (count[1] == 1 ? " does" : " do") << " not, and " << count[2]
         << (count[2] == 1 ? " is" : " are")
         << " undecided.</p>\n<table class=\"claims\">\n<thead><tr><th scope=\"col\">Figure</th><th scope=\"col\">The "
            "paper says</th><th scope=\"col\">Verdict</th></tr></thead>\n<tbody>\n"
         << rows.str() << "</tbody>\n</table>\n</section>\n";
    return text.str();
}

std::string claims(const Figure& figure, std::size_t index) {
    if (figure.claims.empty()) return "";
    std::ostringstream text;
    text << "<table class=\"claims\">\n<thead><tr><th scope=\"col\">The paper says</th><th scope=\"col\">Found "
            "here</th><th scope=\"col\">Verdict</th></tr></thead>\n<tbody>\n";
    for (std::size_t c = 0; c < figure.claims.size(); ++c) {
        const Claim& claim = figure.claims[c];
        text << "<tr id=\"" << claim_id(index, c) << "\"><td data-label=\"The paper says\">" << escaped(claim.paper)
             << "</td><td data-label=\"Found here\">" << escaped(claim.here) << "</td>" << verdict_cell(claim.verdict)
             << "</tr>\n";
    }
    text << "</tbody>\n</table>\n";
    return text.str();
}

bool has_errors(const Plot& plot) {
    for (const Series& series : plot.series)
        for (const double error : series.error)
            if (std::isfinite(error)) return true;
    return false;
}

/// A row for each x, a column for each series.
std::string numbers(const Plot& plot, bool open) {
    std::map<double, std::vector<std::string>> rows;
    for (std::size_t s = 0; s < plot.series.size(); ++s) {
        const Series& series = plot.series[s];
        for (std::size_t i = 0; i < series.x.size(); ++i) {
            if (std::isnan(series.x[i])) continue;  // has no place on the axis
            std::vector<std::string>& row = rows[series.x[i]];
            row.resize(plot.series.size());
            row[s] += (row[s].empty() ? "" : ", ") + printed(series.y[i], series.error.empty() ? NAN : series.error[i]);
        }
    }
    std::ostringstream text;
    text << "<details" << (open ? " open" : "") << "><summary>Numbers: " << escaped(plot.title)
         << "</summary>\n<p class=\"note\">" << escaped(plot.y_label)
         << (has_errors(plot) ? ", ± one standard error" : "")
         << "</p>\n<div class=\"numbers\" tabindex=\"0\">\n<table>\n<thead><tr><th scope=\"col\">"
         << escaped(plot.x_label) << "</th>";
    for (const Series& series : plot.series) text << "<th scope=\"col\">" << escaped(series.name) << "</th>";
    text << "</tr></thead>\n<tbody>\n";
    for (const auto& [x, cells] : rows) {
        text << "<tr><th scope=\"row\">" << printed("%.7g", x) << "</th>";
        for (const std::string& cell : cells) text << "<td>" << cell << "</td>";
        text << "</tr>\n";
    }
    text << "</tbody>\n</table>\n</div>\n</details>\n";
    return text.str();
}

}  // namespace

std::string html(const Page& page, const std::vector<std::string>& svgs) {
    std::ostringstream text;
    text << "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
            "content=\"width=device-width, initial-scale=1\">\n<title>"
         << escaped(page.title) << "</title>\n<style>" << style << "</style>\n</head>\n<body>\n<main>\n<h1>"
         << escaped(page.title) << "</h1>\n"
         << paragraph(page.setting);
    if (page.figures.empty()) text << "<p>There are no figures.</p>\n";
    const bool any_plot = std::any_of(page.figures.begin(), page.figures.end(),
                                      [](const Figure& figure) { return !figure.plots.empty(); });
    if (any_plot && svgs.empty())
        text << "<p>The plots are missing, because gnuplot, which draws them, was not found. Their numbers are all "
                "here.</p>\n";
    text << summary(page);

    std::size_t plots = 0;
    for (std::size_t f = 0; f < page.figures.size(); ++f) {
        const Figure& figure = page.figures[f];
        text << "<section id=\"figure-" << f + 1 << "\">\n<h2>" << escaped(figure.title) << "</h2>\n"
             << paragraph(figure.setting);
        if (!svgs.empty() && !figure.plots.empty()) {
            text << "<div class=\"plots" << (figure.plots.size() > 1 ? " several" : "") << "\">\n";
            for (const Plot& plot : figure.plots) {
                const std::string prefix = "plot-" + std::to_string(plots + 1) + "-";
                text << "<figure class=\"plot\">\n" << inlined(svgs.at(plots++), plot.title, prefix) << "</figure>\n";
            }
            text << "</div>\n";
            if (std::any_of(figure.plots.begin(), figure.plots.end(), has_errors))
                text << "<p class=\"note\">Shaded bands and error bars are ± one standard error.</p>\n";
        }
        text << claims(figure, f);
        for (const Plot& plot : figure.plots) text << numbers(plot, svgs.empty());
        text << "</section>\n";
    }
    text << "<section>\n<p class=\"note\">All numbers are also in results.csv and results.json, which were written "
            "beside this page.</p>\n</section>\n</main>\n</body>\n</html>\n";
    return text.str();
}

}  // namespace reproduce
