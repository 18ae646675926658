//! Recursive descent over the grammar in the module's head. Every descent is counted, so hostile nesting ends
//! in an error and not at the end of the stack.

use super::super::Error;
use super::super::limits::{SQL_DEPTH_MAX, SQL_IN_ITEMS_MAX, SQL_TERMS_MAX};
use super::ast::{Expr, Place, Presence, Relation, Search, TextSet};
use super::cursor::Cursor;
use super::term::Term;
use super::token::{Keyword, Symbol, Token, unquote};

pub(super) fn parse(source: &str) -> Result<Expr, Error> {
    let mut parser = Parser { tokens: Cursor::new(source)?, nesting: 0, terms: 0 };
    let whole = parser.or()?;
    parser.tokens.expect(Token::End, "an operator or the end")?;
    whole.condition()
}

struct Parser<'a> {
    tokens: Cursor<'a>,
    nesting: usize,
    terms: usize,
}

type Parsed<'a> = Result<Term<'a>, Error>;

impl<'a> Parser<'a> {
    fn or(&mut self) -> Parsed<'a> {
        self.chain(Keyword::Or, Self::and, Expr::Or)
    }

    fn and(&mut self) -> Parsed<'a> {
        self.chain(Keyword::And, Self::equality, Expr::And)
    }

    fn chain(
        &mut self,
        joint: Keyword,
        operand: fn(&mut Self) -> Parsed<'a>,
        join: fn(Vec<Expr>) -> Expr,
    ) -> Parsed<'a> {
        let first = operand(self)?;
        if self.tokens.peek() != Token::Keyword(joint) {
            return Ok(first);
        }
        let (start, mut depth) = (first.start, first.depth);
        let mut conditions = vec![first.condition()?];
        while self.tokens.accept(Token::Keyword(joint))? {
            let next = operand(self)?;
            depth = depth.max(next.depth);
            conditions.push(next.condition()?);
        }
        self.node(start, depth, join(conditions))
    }

    fn equality(&mut self) -> Parsed<'a> {
        let mut left = self.comparison()?;
        loop {
            let (start, depth) = (left.start, left.depth);
            left = match self.tokens.peek() {
                Token::Symbol(symbol @ (Symbol::Equal | Symbol::NotEqual)) => {
                    self.tokens.advance()?;
                    let right = self.comparison()?;
                    let depth = depth.max(right.depth);
                    let equal =
                        self.node(start, depth, Expr::Equal(Term::comparable(left, right)?.into()))?;
                    if symbol == Symbol::NotEqual { self.negation(start, equal)? } else { equal }
                }
                Token::Keyword(Keyword::Is) => {
                    self.tokens.advance()?;
                    let negated = self.tokens.accept(Token::Keyword(Keyword::Not))?;
                    self.tokens.expect(
                        Token::Keyword(Keyword::Null),
                        if negated { "NULL" } else { "NULL or NOT" },
                    )?;
                    let null = self.node(start, depth, Expr::IsNull(left.expr.into()))?;
                    if negated { self.negation(start, null)? } else { null }
                }
                _ => return Ok(left),
            };
        }
    }

    fn negation(&mut self, start: usize, condition: Term<'a>) -> Parsed<'a> {
        self.node(start, condition.depth, Expr::Not(condition.condition()?.into()))
    }

    fn comparison(&mut self) -> Parsed<'a> {
        use Keyword::{Between, Contains, EndsWith, In, Not, StartsWith};
        let mut left = self.unary()?;
        loop {
            left = match self.tokens.peek() {
                Token::Symbol(Symbol::Less) => self.relation(left, Relation::Less)?,
                Token::Symbol(Symbol::LessOrEqual) => self.relation(left, Relation::LessOrEqual)?,
                Token::Symbol(Symbol::Greater) => self.relation(left, Relation::Greater)?,
                Token::Symbol(Symbol::GreaterOrEqual) => self.relation(left, Relation::GreaterOrEqual)?,
                Token::Keyword(Between | Contains | EndsWith | In | StartsWith) => {
                    self.predicate(left, Presence::Wanted)?
                }
                Token::Keyword(Not) => {
                    self.tokens.advance()?;
                    self.predicate(left, Presence::Unwanted)?
                }
                _ => return Ok(left),
            };
        }
    }

    fn relation(&mut self, left: Term<'a>, relation: Relation) -> Parsed<'a> {
        self.tokens.advance()?;
        let right = self.unary()?;
        let (start, depth) = (left.start, left.depth.max(right.depth));
        let operands = [left.orderable()?, right.orderable()?];
        self.node(start, depth, Expr::Order(relation, operands.into()))
    }

    fn predicate(&mut self, subject: Term<'a>, presence: Presence) -> Parsed<'a> {
        match self.tokens.peek() {
            Token::Keyword(Keyword::Between) => self.between(subject, presence),
            Token::Keyword(Keyword::In) => self.in_list(subject, presence),
            Token::Keyword(Keyword::Contains) => self.search(subject, presence, Place::Anywhere),
            Token::Keyword(Keyword::StartsWith) => self.search(subject, presence, Place::Start),
            Token::Keyword(Keyword::EndsWith) => self.search(subject, presence, Place::End),
            _ => Err(self.tokens.unexpected("BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH")),
        }
    }

    /// Literal bounds in the wrong order are refused, except after `NOT`, where they select everything.
    fn between(&mut self, value: Term<'a>, presence: Presence) -> Parsed<'a> {
        self.tokens.advance()?;
        let low = self.unary()?;
        self.tokens.expect(Token::Keyword(Keyword::And), "AND")?;
        let high = self.unary()?;
        if let (Expr::Number(from), Expr::Number(to), Presence::Wanted) = (&low.expr, &high.expr, presence)
            && from.order(*to).is_gt()
        {
            return Err(Error::ReversedRange { at: low.start });
        }
        let (start, depth) = (value.start, value.depth.max(low.depth).max(high.depth));
        let operands = [value.orderable()?, low.orderable()?, high.orderable()?];
        self.node(start, depth, Expr::Between(presence, operands.into()))
    }

    fn in_list(&mut self, subject: Term<'a>, presence: Presence) -> Parsed<'a> {
        let at = self.tokens.advance()?;
        let (start, depth) = (subject.start, subject.depth);
        let name = subject.property()?;
        self.tokens.expect(Token::Symbol(Symbol::Open), "(")?;
        let mut items = Vec::new();
        loop {
            if items.len() == SQL_IN_ITEMS_MAX {
                return Err(Error::TooManyItems { at, limit: SQL_IN_ITEMS_MAX });
            }
            self.count_term()?;
            items.push(self.tokens.text()?);
            if !self.tokens.accept(Token::Symbol(Symbol::Comma))? {
                break;
            }
        }
        self.tokens.expect(Token::Symbol(Symbol::Close), ", or )")?;
        self.node(start, depth, Expr::In(presence, name, TextSet::new(items)))
    }

    fn search(&mut self, subject: Term<'a>, presence: Presence, place: Place) -> Parsed<'a> {
        self.tokens.advance()?;
        let needle = self.tokens.text()?;
        let (start, depth) = (subject.start, subject.depth);
        let search = Search { subject: subject.expr, place, needle };
        self.node(start, depth, Expr::Search(presence, search.into()))
    }

    fn unary(&mut self) -> Parsed<'a> {
        match self.tokens.peek() {
            Token::Symbol(Symbol::Plus) => {
                self.tokens.advance()?;
                self.nested(Self::unary)
            }
            Token::Symbol(Symbol::Minus) => {
                let start = self.tokens.advance()?;
                let operand = self.nested(Self::unary)?;
                self.node(start, operand.depth, Expr::Negate(operand.expr.into()))
            }
            Token::Keyword(Keyword::Not) => {
                let start = self.tokens.advance()?;
                let condition = self.nested(Self::unary)?;
                self.negation(start, condition)
            }
            _ => self.primary(),
        }
    }

    fn primary(&mut self) -> Parsed<'a> {
        let start = self.tokens.position();
        let expr = match self.tokens.peek() {
            Token::Symbol(Symbol::Open) => return self.parenthesised(),
            Token::Text(raw) => Expr::Text(unquote(raw)),
            Token::Number(number) => Expr::Number(number),
            Token::Name(name) => Expr::Property(name.into()),
            Token::Keyword(Keyword::True) => Expr::Bool(true),
            Token::Keyword(Keyword::False) => Expr::Bool(false),
            Token::Keyword(Keyword::Null) => Expr::Null,
            _ => return Err(self.tokens.unexpected("a property, a literal or (")),
        };
        self.tokens.advance()?;
        self.node(start, 0, expr)
    }

    fn parenthesised(&mut self) -> Parsed<'a> {
        let start = self.tokens.advance()?;
        let inner = self.nested(Self::or)?;
        self.tokens.expect(Token::Symbol(Symbol::Close), "an operator or )")?;
        Ok(Term { start, source: self.tokens.taken_since(start), ..inner })
    }

    fn nested(&mut self, parse: fn(&mut Self) -> Parsed<'a>) -> Parsed<'a> {
        if self.nesting == SQL_DEPTH_MAX {
            return Err(Error::TooDeep { at: self.tokens.position(), limit: SQL_DEPTH_MAX });
        }
        self.nesting += 1;
        let parsed = parse(self)?;
        self.nesting -= 1;
        Ok(parsed)
    }

    /// A term that ends with the last token taken, over operands nested `below` levels deep.
    fn node(&mut self, start: usize, below: usize, expr: Expr) -> Parsed<'a> {
        if below == SQL_DEPTH_MAX {
            return Err(Error::TooDeep { at: start, limit: SQL_DEPTH_MAX });
        }
        self.count_term()?;
        Ok(Term { expr, depth: below + 1, start, source: self.tokens.taken_since(start) })
    }

    fn count_term(&mut self) -> Result<(), Error> {
        if self.terms == SQL_TERMS_MAX {
            return Err(Error::TooManyTerms { at: self.tokens.position(), limit: SQL_TERMS_MAX });
        }
        self.terms += 1;
        Ok(())
    }
}
